"""The settings of pip that name where packages come from, for uv, which does not read them.

Standard library only: `installers/prepare.py` reads them before any package is there.
"""

from __future__ import annotations

import ast
import re

_PIP_SETTING = re.compile(r"^(global|install|:env:)\.([a-z-]+)=(.+)$")
_PIP_SECTIONS = ("global", "install", ":env:")
"""The later ones count."""
_UV_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
    "constraint": "--constraint",
}
"""The option of uv for each setting of pip that names where packages come from."""
_UV_VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY", "timeout": "UV_HTTP_TIMEOUT"}


def pip_options(pip_listing: str) -> tuple[list[str], dict[str, str]]:
    """Return options and variables with which uv takes packages from where pip takes them.

    ``pip_listing`` is the output of ``pip config list``. A laboratory's mirror stands in pip's
    files, which uv does not read. Like pip, and unlike uv by itself, the newest version of all
    sources is taken.
    """
    entries = [
        match.groups() for match in map(_PIP_SETTING.match, pip_listing.splitlines()) if match
    ]
    settings = {}
    for _, name, value in sorted(entries, key=lambda entry: _PIP_SECTIONS.index(entry[0])):
        settings[name.replace("default-timeout", "timeout")] = str(ast.literal_eval(value))
    options = ["--index-strategy", "unsafe-best-match", "--system-certs"]
    for setting, option in _UV_OPTIONS.items():
        options += [
            part for source in settings.get(setting, "").split() for part in (option, source)
        ]
    if settings.get("no-index", "0").lower() not in ("0", "false", "no", "off"):
        options.append("--no-index")
    variables = {name: settings[key] for key, name in _UV_VARIABLES.items() if key in settings}
    return options, variables
