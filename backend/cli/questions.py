"""Questions to the user at a terminal.

A host key is accepted by the user here, or by its fingerprint on the command line; an empty answer
means no. A passphrase is typed at a terminal and never an argument, because every user of the
computer can read the command line.
"""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING

from backend.cli.printing import print_note

if TYPE_CHECKING:
    from backend.records.nodes.entry import HostKey


def ask_about_key(key: HostKey) -> bool:
    """Ask about a key; return whether it is accepted."""
    print_note(f"First connection to {key.host}, port {key.port}. Its {key.kind} host key is")
    print_note(f"    {key.fingerprint}")
    print_note("Compare it on the node itself: ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub")
    sys.stderr.write("Accept it? Type yes to accept: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() == "yes"


def ask_passphrase(identity: str) -> str:
    return ask_secret(f"Passphrase of {identity}: ")


def ask_secret(question: str) -> str:
    """Read a secret, hidden; "" at the end of the input."""
    try:
        return getpass.getpass(question)
    except EOFError:  # No answer, which the caller reports.
        return ""
