"""Actions of a user on the job of another one: notices for the owner, and the rule against them."""

from __future__ import annotations

import os
import re
import secrets
import time
from pathlib import Path

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.records.base.account import user_name
from backend.records.base.atomic_files import stored_record
from backend.records.base.layout import DataRoot
from backend.records.base.timestamps import utc_now
from backend.records.jobs.audit_entry import OwnerNotice, OwnerRule

_RULE_MODE = 0o644


def owner_rule(root: OpenRoot) -> OwnerRule | None:
    """Return the rule of a data root, None for none."""
    root.files.refresh_file(root.owner_rule)
    if not root.owner_rule.exists():
        return None
    return stored_record(OwnerRule, root.owner_rule) or OwnerRule()


def set_owner_rule(root: OpenRoot, *, is_set: bool) -> None:
    """Set or remove the rule; only the user who set it may remove it.

    Raises:
        BackendError: Another user set the rule.
        OSError: The data root cannot be written.
    """
    rule = owner_rule(root)
    if (rule is not None) == is_set:
        return
    if rule is not None and rule.user != user_name():
        setter = rule.user or "another user"
        raise BackendError(f"{setter} set the rule of this data root.", f"Ask {setter}.")
    if not is_set:
        root.files.remove(root.owner_rule)
        return
    root.files.replace_json(root.owner_rule, OwnerRule(user_name(), utc_now()).to_dict())
    if root.files.is_mounted:
        os.chmod(root.owner_rule, _RULE_MODE)


def require_right(folder: OpenJob, owner: str) -> None:
    """Raise BackendError if the rule of the data root keeps this user from ending the job."""
    rule = owner_rule(OpenRoot(folder.path.parent.parent, folder.files))
    if rule is not None and user_name() not in (owner, rule.user):
        helpers = " or ".join(dict.fromkeys(filter(None, (owner, rule.user))))
        raise BackendError(
            f"The job {folder.job_id} belongs to {owner or 'another user'}, and in this data root "
            "only the owner stops or removes a job.",
            f"Ask {helpers}." if helpers else "",
        )


def notify_owner(folder: OpenJob, owner: str, name: str, message: str) -> None:
    """Leave a notice for the owner of a job, if that is another user.

    Raises:
        OSError: The data root cannot be written.
    """
    if not owner or owner == user_name():
        return
    root = DataRoot(folder.path.parent.parent)
    notices = _notices_of(root, owner)
    for path in (root.notices, notices):
        folder.files.make_folder(path, exist_ok=True)
    notice = OwnerNotice(folder.job_id, name, message)
    path = notices / f"{time.time_ns()}-{secrets.token_hex(4)}.json"
    folder.files.replace_json(path, notice.to_dict())


def take_notices(root: OpenRoot) -> tuple[OwnerNotice, ...]:
    """Return the notices for this user, oldest first, and remove them.

    Raises:
        OSError: The data root cannot be read.
    """
    folder = _notices_of(root, user_name())
    notices = []
    with suppress(FileNotFoundError):
        for name in sorted(name for name in root.files.names(folder) if name[0] != "."):
            root.files.refresh_file(folder / name)
            notice = stored_record(OwnerNotice, folder / name)
            # Of two windows of a user one removes the file, and shows the notice.
            root.files.remove(folder / name)
            if notice is not None:
                notices.append(notice)
    return tuple(notices)


def _notices_of(root: DataRoot, user: str) -> Path:
    return root.notices / (re.sub(r"[^\w.-]", "_", user).lstrip(".") or "_")
