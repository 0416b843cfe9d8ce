"""Hide paths and machines in the texts of a report, because it leaves the cluster."""

from __future__ import annotations

import ipaddress
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from contextlib import suppress

HIDDEN = "…"
_LOCAL_DOMAINS = r"(?:local|localdomain|lan|intra|intranet|internal|corp|home|cluster)"
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s\"'<>“”]+")
_PUBLIC_URL = re.compile(rf"https?://(?:[\w-]+\.)+(?!{_LOCAL_DOMAINS}\b)[A-Za-z]{{2,}}(?![\w.:@-])")
"""Such as the address of a paper in the notes: a public name, without a port or an account."""
_MACHINE = re.compile(
    rf"(?<![\w.+-])[\w.+-]{{1,64}}@[A-Za-z][\w-]{{2,}}(?:\.[\w-]+)*"
    rf"|(?<![\w.-])(?:[\w-]{{1,63}}\.){{1,9}}{_LOCAL_DOMAINS}\b"
    r"|(?<![\w.])(?:[\w.+-]{1,64}@)?\d{1,3}(?:\.\d{1,3}){3}(?![\w.])|\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b",
    re.IGNORECASE,
)
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?![\w:])")
_FOLDER = r"(?=[\w.-]{2}|\w/)"
_ROOT = rf"(?<!:)//{_FOLDER}|(?:\b[\w.-]{{1,253}}:)?/(?!/|\w+>){_FOLDER}"
_START = rf"(?:[A-Za-z]:[\\/]|\\\\(?=\w)|~[\w.-]*/|{_ROOT})"
_WORD = r"[^\s\"'<>”’`]*[^\s\"'<>”’`).,;:\]}]"
_PATH = re.compile(
    rf"(?<=[\"'“‘`]){_START}[^\"'“”’`\n:]+(?=[\"'”’`])"
    rf"|(?<![\w.)/…]){_START}{_WORD}(?: [\w.-]+/{_WORD})*"
)
"""A quotation, which may have spaces, or a word, with a word after a space if that has a slash."""
_WHOLE, _LONG_NAME = r"(?<![^\W_]){}(?![^\W_])", 8
_FILE = re.compile(r"[/\\]([\w+-][\w.+-]*\.[A-Za-z]\w{0,7}(?::\d+)*)$")


class Mask:
    """Replaces paths and machines; file names stay, and nodes get numbers.

    Args:
        roots: The paths of the data root, which may contain spaces.
        machines: The text for each known name or address of a machine.
    """

    def __init__(self, roots: Iterable[str], machines: Mapping[str, str]) -> None:
        forms = {
            form
            for root in roots
            for form in (root, json.dumps(root)[1:-1], urllib.parse.quote(root))
        }
        self._roots = sorted((form for form in forms if len(form) > 1), key=len, reverse=True)
        self._machines = {name.casefold(): text for name, text in machines.items() if name}
        patterns = map(re.escape, sorted(self._machines, key=len, reverse=True))
        # A short name is also a part of other words.
        names = "|".join(p if len(p) >= _LONG_NAME else _WHOLE.format(p) for p in patterns)
        self._machine_names = re.compile(names or "(?!)", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        for root in self._roots:
            text = text.replace(root, HIDDEN)
        text = _PATH.sub(_mask_path, _URL.sub(_mask_url, text))
        text = self._machine_names.sub(lambda name: self._machines[name[0].casefold()], text)
        return _IPV6.sub(_mask_ip, _MACHINE.sub(HIDDEN, text))


def _mask_url(url: re.Match[str]) -> str:
    return url[0] if _PUBLIC_URL.match(url[0]) else HIDDEN


def _mask_path(path: re.Match[str]) -> str:
    """Return the name of a file, which says where in the code an error was; no folder."""
    name = _FILE.search(path[0])
    return f"{HIDDEN}/{name[1]}" if name else HIDDEN


def _mask_ip(text: re.Match[str]) -> str:
    with suppress(ValueError):
        ipaddress.ip_address(text[0].rstrip("."))
        return HIDDEN
    return text[0]
