"""Rules for names in imports: which are left out, and which a data root cannot store.

Folders and zip files use the same rules, so that both import the same files with the same hash.
"""

from __future__ import annotations

import re
import unicodedata

from backend.records.base.validation import RESERVED_NAMES
from backend.records.library.item import Kind

_NAME_BYTES = 255
# Files of operating systems, file servers and open editors.
_LITTER = re.compile(
    r"""__MACOSX | \._.* | \.DS_Store | \.localized | Icon\r | \.apdisk | \.VolumeIcon\.icns
    | \.AppleDouble | \.Spotlight-V100 | \.Trashes | \.fseventsd | \.TemporaryItems
    | \.DocumentRevisions-V100
    | Thumbs\.db | ehthumbs(_vista)?\.db | desktop\.ini | \$RECYCLE\.BIN
    | System\ Volume\ Information
    | @eaDir | \#recycle | \#snapshot | @Recycle | @Recently-Snapshot
    | \.nfs[0-9a-f]{4,} | \.fuse_hidden[0-9a-f]+ | \.Trash-\d+ | \.directory | lost\+found
    | ~\$.+ | \.~lock\..+\# | \.\#.+""",
    re.VERBOSE | re.IGNORECASE,
)
# Files of tools in folders of source code; they would change the hash at each import.
_OF_TOOLS = re.compile(
    r"""__pycache__ | __pypackages__ | \.(git|hg|svn|bzr|jj) | \.ipynb_checkpoints
    | \.?venv | \.(direnv|pixi|tox|nox|eggs) | .+\.egg-info | node_modules
    | wandb | mlruns | lightning_logs | \.(aim|dvc|guild|neptune)
    | \.(mypy|pytest|ruff)_cache | \.cache | \.(hypothesis|pyre|pytype) | \.coverage
    | \.(idea|vscode|vs|fleet|settings|spyproject|history)
    | \..+\.sw[op] | .+~ | \#.+\#""",
    re.VERBOSE,
)
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
"""A folder that contains one of these is a Python environment, whatever its name."""


def is_litter(kind: Kind, name: str) -> bool:
    """Return whether a file or folder of this name is left out of an import."""
    return bool(_LITTER.fullmatch(name) or (kind.is_code and _OF_TOOLS.fullmatch(name)))


def left_out_of(kind: Kind, path: str, environments: frozenset[str] = frozenset()) -> str:
    """Return the file or folder on the way to ``path`` that leaves it out, or ""."""
    parts = path.split("/")
    for count, part in enumerate(parts, 1):
        if is_litter(kind, part) or (environments and "/".join(parts[:count]) in environments):
            return "/".join(parts[:count])
    return ""


def path_fault(path: str) -> str:
    """Return why a file of this relative path cannot be imported ("has …"), or ""."""
    try:
        path.encode()
    except UnicodeEncodeError:  # that is the fault
        return "has a name that is not UTF-8"
    if any(unicodedata.category(character) == "Cc" for character in path):
        return "has a line break or another control character in its name"
    for part in path.split("/"):
        if len(part.encode()) > _NAME_BYTES:
            return f"has a name of more than {_NAME_BYTES} bytes"
        if part.split(".")[0].rstrip(" ").upper() in RESERVED_NAMES:
            return (
                f"has the name {part}, which Windows reserves: computers with Windows could not "
                "open it in the data root"
            )
    return ""
