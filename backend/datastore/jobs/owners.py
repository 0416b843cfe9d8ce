"""Actions of a user on the job of another one: notices for the owner, and the rule against them."""

from __future__ import annotations

import os

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.datastore.access.root_access import OpenJob, OpenRoot
from backend.records.base.account import owner_of, user_name
from backend.records.base.atomic_files import stored_record
from backend.records.base.layout import DataRoot
from backend.records.base.timestamps import utc_now
from backend.records.jobs.audit_entry import OwnerNotice, OwnerRule, leave_notice, notices_of

_RULE_MODE = 0o644


def owner_rule(root: OpenRoot) -> OwnerRule | None:
    """Return the rule of a data root, None for none."""
    root.files.refresh_file(root.owner_rule)
    if not root.owner_rule.exists():
        return None
    return stored_record(OwnerRule, root.owner_rule) or OwnerRule()


def rule_refusal(root: OpenRoot) -> str:
    """Return why this user may not set or remove the rule, "" if the user may.

    The owner of the folder may. Over SSH the owner is not known, and who set the rule removes it.
    """
    if root.files.is_mounted and hasattr(os, "geteuid"):
        if os.geteuid() in (0, os.stat(root.path).st_uid):
            return ""
        owner = owner_of(root.path) or "another user"
        return f"Only {owner}, who owns the folder of the data root, can change this."
    rule = owner_rule(root)
    if rule is None or rule.user == user_name():
        return ""
    return f"Only {rule.user or 'another user'}, who set this, can change it."


def set_owner_rule(root: OpenRoot, *, is_set: bool) -> None:
    """Set or remove the rule.

    Raises:
        BackendError: This user may not; see `rule_refusal`.
        OSError: The data root cannot be written.
    """
    if (owner_rule(root) is not None) == is_set:
        return
    if refusal := rule_refusal(root):
        raise BackendError(refusal)
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
    leave_notice(root, folder.files, owner, OwnerNotice(folder.job_id, name, message))


def take_notices(root: OpenRoot) -> tuple[OwnerNotice, ...]:
    """Return the notices for this user, oldest first, and remove them.

    Raises:
        OSError: The data root cannot be read.
    """
    folder = notices_of(root, user_name())
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
