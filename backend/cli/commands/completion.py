"""``completion``."""

from __future__ import annotations

import argparse
import re
import shlex

from backend.cli.command import command, everything, groups
from backend.cli.parser import common_options
from backend.cli.printing import Answer, Raw
from backend.records.base.program_name import COMMAND

_SCRIPT = """_ringmaster() {{
    local key="" last="" word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $last in --data-root | --catalogue | --accept-key) last="" && continue ;; esac
        last=$word
        [[ $word == -* ]] || key+="$word "
    done
    case $key in
{cases}
        *) words="" ;;
    esac
    COMPREPLY=($(compgen -W "$words {common}" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _ringmaster {name}
"""


@command("completion")
def completion() -> Answer:
    """Print a script that completes commands in bash."""
    offered = {'""': groups()}
    for one in everything():
        leaf = argparse.ArgumentParser(add_help=False)
        for each in one.parameters():
            each.add_to(leaf, one.words[0])
        offered[f'"{" ".join(one.words)} "*'] = _flags(leaf)
        if len(one.words) > 1:
            offered.setdefault(f'"{one.words[0]} "', []).append(one.words[1])
    cases = "\n".join(f'        {key}) words="{" ".join(of)}" ;;' for key, of in offered.items())
    common = " ".join(_flags(common_options()))
    script = _SCRIPT.format(cases=cases, common=common, name=shlex.quote(COMMAND))
    return Answer({"script": script}, Raw(script))


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return re.findall("--[a-z-]+", parser.format_usage())
