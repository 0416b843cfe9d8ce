"""The user of this process, who may have no entry in the password file (in a container).

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from backend.base.errors import BackendError


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # No entry in the password file.
        return str(os.getuid()) if hasattr(os, "getuid") else ""


def owner_of(path: Path) -> str:
    """Return the user who owns a file or folder, "" if this computer does not know the user."""
    try:
        return path.owner()
    except (KeyError, OSError, NotImplementedError):  # Windows has no owners.
        return ""


def password_file_home() -> Path | None:
    """Return the home folder of the password file, which is the one that ssh uses; None without."""
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except ImportError:  # Windows has no password file.
        return Path.home()
    except KeyError:  # An account without an entry, as in containers.
        return None


def prepare_account() -> None:
    """Name a user without an entry for libraries, such as paramiko and PyTorch, that ask for one.

    Raises:
        BackendError: This user has no home folder.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        # For libraries that do not catch this themselves.
        os.environ["USER"] = user_name()
    try:
        Path.home()
    except RuntimeError as error:
        raise BackendError(
            f"User {user_name()} has no home folder: HOME is not set, and the password file does "
            "not have this user.",
            "Set HOME to a folder of yours.",
        ) from error


def expand_home(path: str | Path) -> Path:
    """Replace ``~`` at the beginning; a path with the ``~`` of an unknown user stays as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        # The sentence about a missing file names the path as it was typed.
        return Path(path)
