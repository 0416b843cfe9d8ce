"""``completion``."""

from __future__ import annotations

import argparse
import re
import shlex

from backend.cli.command import all_commands, command, groups
from backend.cli.main import common_options
from backend.cli.printing import Answer, RawText
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
    tokens_by_prefix = {'""': groups()}
    for leaf_command in all_commands():
        leaf = argparse.ArgumentParser(add_help=False)
        for parameter in leaf_command.parameters():
            parameter.add_to(leaf, leaf_command.path[0])
        tokens_by_prefix[f'"{" ".join(leaf_command.path)} "*'] = _flags(leaf)
        if len(leaf_command.path) > 1:
            tokens_by_prefix.setdefault(f'"{leaf_command.path[0]} "', []).append(
                leaf_command.path[1]
            )
    cases = "\n".join(
        f'        {key}) words="{" ".join(tokens)}" ;;' for key, tokens in tokens_by_prefix.items()
    )
    common_flags = " ".join(_flags(common_options()))
    script = _SCRIPT.format(cases=cases, common=common_flags, name=shlex.quote(COMMAND))
    return Answer({"script": script}, RawText(script))


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return re.findall("--[a-z-]+", parser.format_usage())
