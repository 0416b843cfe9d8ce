"""The one text that a login shell reads, whatever shell that is."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.provisioning import cluster_key
from backend.ssh.remote_command import Stream, in_any_shell
from tests.waiting import LIMIT_S

SHELLS = [shell for shell in ("sh", "bash", "zsh", "tcsh", "csh", "fish") if shutil.which(shell)]
"""Which are not POSIX are tried where they are; the first test holds without them."""
ODD_ARGUMENTS = [
    "it's",
    "line\nbreak\n",
    "!x",
    "!!",
    "^a^b",
    "\\",
    "\\n",
    "x\\",
    "$HOME",
    "`id`",
    '"',
    "é ☃",
    "",
]


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
def test_no_shell_sees_a_line_break_a_bang_or_a_quote_of_the_command(argv: list[str]) -> None:
    line = in_any_shell(shlex.join(argv))
    assert re.fullmatch(r"[ -~]*", line)
    assert "!" not in line
    first, *arguments = re.findall(r"'([^']*)'", line)
    assert line == " ".join(["/bin/sh -c", f"'{first}' sh", *(f"'{word}'" for word in arguments)])
    # A backslash begins an escape of ours and nothing that fish or csh has.
    assert all(re.fullmatch(r"(\\0[0-7]{3}|[^\\])*", word) for word in arguments)


@pytest.mark.parametrize("shell", SHELLS)
def test_words_arrive_as_they_are_through_any_login_shell(shell: str) -> None:
    line = in_any_shell(shlex.join(["printf", "<%s>\n", *ODD_ARGUMENTS, "x" * 40_000]))
    done = subprocess.run([shell, "-c", line], capture_output=True, timeout=LIMIT_S, check=True)
    assert done.stdout.decode() == "".join(f"<{word}>\n" for word in (*ODD_ARGUMENTS, "x" * 40_000))


@pytest.mark.parametrize("shell", SHELLS)
def test_sh_reads_the_command_of_mpirun_under_any_login_shell(shell: str) -> None:
    line = cluster_key.authorized_line("ssh-ed25519 AAAA", "10.77.0.0/24")
    forced = re.fullmatch(r'restrict,from="[^"]+",command="((?:[^"\\]|\\")*)" ssh-.*', line)
    assert forced is not None
    command = 'A="x;y" ; export A ; B=${B:-b} ; export B ; echo "$A$B@0(2)" $SHELL'
    done = subprocess.run(
        [shell, "-c", forced[1].replace('\\"', '"')],
        env={"SSH_ORIGINAL_COMMAND": command, "SHELL": f"/bin/{shell}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout == b"x;yb@0(2) /bin/sh\n"


MARK = b"0123456789abcdef"


@given(
    login_output=st.binary(max_size=40).filter(lambda text: MARK not in text),
    content=st.text(st.sampled_from("01\n é"), max_size=60).map(str.encode),
    code=st.integers(0, 255),
    cuts=st.lists(st.integers(0, 200), max_size=30),
)
def test_output_is_read_alike_in_whatever_pieces_it_arrives(
    login_output: bytes, content: bytes, code: int, cuts: list[int]
) -> None:
    sent = login_output + MARK + b"\n" + content + MARK + b"%d\n" % code + b"of the login shell"
    lines: list[str] = []
    stream = Stream(MARK, lines.append)
    for start, end in itertools.pairwise((0, *sorted(cuts), len(sent))):
        stream.feed(sent[start:end])
    assert (stream.login_output, stream.content, stream.code) == (login_output, content, code)
    assert "\n".join(lines) == content.decode().removesuffix("\n")
