"""What `Shell` promises, kept by the real thing against a real sshd."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest
from paramiko.sftp import CMD_READ

from backend.base.errors import BackendError
from backend.ssh import client as ssh_client
from backend.ssh import remote_command
from backend.ssh.interface import LoginRefused, Shell, Unreachable
from backend.ssh.remote_command import OUTPUT_LIMIT_BYTES, Stream
from tests.backend.ssh.sshd_rig import Sshd
from tests.waiting import LIMIT_S

pytest_plugins = ["tests.backend.ssh.sshd_fixtures"]
ODD_ARGUMENTS = [
    "a b",
    "it's",
    '"',
    "$HOME",
    "`id`",
    ";",
    "*",
    "\\n",
    "",
    "é ☃",
    "-e",
    "line\nbreak",
    "!x",
]


def test_words_arrive_as_they_are(shell: Shell) -> None:
    answer = shell.run(["printf", "<%s>\\n", *ODD_ARGUMENTS])
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "".join(f"<{word}>\n" for word in ODD_ARGUMENTS)


def test_a_list_of_processes_ends_where_it_ends(shell: Shell) -> None:
    # It shows the very command line that brought it about.
    answer = shell.run(["sh", "-c", "cat /proc/[0-9]*/cmdline; echo; echo the end"])
    assert answer.ok
    assert answer.out.endswith("\nthe end\n")


@pytest.mark.parametrize("code", [0, 1, 7, 127, 255])
def test_the_code_and_both_streams_come_back(shell: Shell, code: int) -> None:
    answer = shell.run(["sh", "-c", f"echo out; echo err >&2; exit {code}"])
    assert (answer.code, answer.out, answer.err) == (code, "out\n", "err\n")
    assert answer.ok == (code == 0)


def test_a_killed_command_has_the_shells_code(shell: Shell) -> None:
    assert shell.run(["sh", "-c", "kill -9 $$"]).code == 137


def test_a_missing_program_gives_a_code_and_a_complaint(shell: Shell) -> None:
    answer = shell.run(["no-such-program"])
    assert answer.code == 127
    assert "not found" in answer.complaint


def test_output_without_a_line_end_or_of_any_bytes_is_kept(shell: Shell) -> None:
    answer = shell.run(["printf", "a\\0b\\377\\nlast"])
    assert answer.out == "a\0b\N{REPLACEMENT CHARACTER}\nlast"


def test_nothing_is_read_from_the_terminal(shell: Shell) -> None:
    assert shell.run(["cat"]).out == ""


@pytest.mark.parametrize("size", [1, 100_000, 9_000_000])
def test_input_arrives_whole(shell: Shell, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    answer = shell.run(["sh", "-c", "wc -c; echo done >&2"], input=content)
    assert (answer.out.strip(), answer.err) == (str(len(content)), "done\n")


def test_unread_input_does_not_hang(shell: Shell) -> None:
    assert shell.run(["true"], input=bytes(9_000_000), limit_s=LIMIT_S).ok


def test_input_and_output_flow_at_once(shell: Shell) -> None:
    content = b"line of some length\n" * 150_000
    assert shell.run(["cat"], input=content, limit_s=LIMIT_S).out.encode() == content


def test_the_end_of_endless_output_is_kept(shell: Shell) -> None:
    answer = shell.run(["sh", "-c", "yes | head -c 20000000; echo the end"], limit_s=60)
    assert len(answer.out) == OUTPUT_LIMIT_BYTES
    assert answer.out.endswith("y\nthe end\n")


def test_lines_come_while_the_command_runs(shell: Shell, sshd: Sshd) -> None:
    go = sshd.home / "go"
    printed_lines = []

    def on_line(line: str) -> None:
        printed_lines.append(line)
        go.touch()

    # It ends only when its first line was read.
    script = f"echo first; while ! test -e {go}; do sleep 0.05; done; echo second >&2; printf third"
    assert shell.run(["sh", "-c", script], on_line=on_line, limit_s=LIMIT_S).ok
    assert printed_lines[0] == "first"
    assert sorted(printed_lines) == ["first", "second", "third"]


def test_a_background_process_with_the_output_open_delays_no_command(
    shell: Shell, sshd: Sshd
) -> None:
    fifo = sshd.home / "fifo"
    os.mkfifo(fifo)
    assert shell.run(["sh", "-c", f"cat {fifo} & echo started"]).out == "started\n"
    fifo.write_text("the process waited until now\n")


def test_a_limit_ends_the_waiting_and_the_connection_lives_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s = 0.0
    monkeypatch.setattr(remote_command, "time", SimpleNamespace(monotonic=lambda: clock_s))

    def pass_the_limit(_: str) -> None:
        nonlocal clock_s
        clock_s = LIMIT_S

    # Not before it has begun: a connection may be opened slowly.
    script = "echo begun; sleep 600"
    with pytest.raises(Unreachable, match=r"“sh”.*had not ended after"):
        shell.run(["sh", "-c", script], on_line=pass_the_limit, limit_s=LIMIT_S)
    assert shell.run(["echo", "still here"]).out == "still here\n"


def test_f52_a_bashrc_that_prints_pollutes_nothing(
    make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell]
) -> None:
    sshd = make_sshd()
    noise = "echo noise; echo noise >&2; trap 'echo parting' EXIT; cd /\n"
    (sshd.home / ".bashrc").write_text(noise)
    answer = enter(sshd).run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (answer.code, answer.out, answer.err) == (3, "out\n", "err\n")
    # That the file was read at all: where it leaves, the command runs.
    assert enter(sshd).run(["pwd"]).out == "/\n"


def test_f52_a_bashrc_that_ends_the_shell_is_named(
    make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell]
) -> None:
    sshd = make_sshd()
    (sshd.home / ".bashrc").write_text("echo 'module: no such module' >&2; exit 5\n")
    with pytest.raises(
        LoginRefused, match=r"code 5 before any command.*module: no such module"
    ) as caught:
        enter(sshd).run(["echo", "out"])
    assert "~/.bashrc" in caught.value.remedy


@pytest.mark.parametrize(
    "question",
    [
        "read -p 'Proceed? ' answer",
        "cat > answer",
        "head -c 4 > answer",
        "select answer in yes no; do break; done",
        "while read -r answer; do :; done",
        "python3 -c 'print(input())' > answer",
    ],
)
def test_a_bashrc_that_asks_gets_no_input_of_a_command(
    make_sshd: Callable[..., Sshd],
    enter: Callable[[Sshd], Shell],
    monkeypatch: pytest.MonkeyPatch,
    question: str,
) -> None:
    sshd = make_sshd()
    (sshd.home / ".bashrc").write_text(
        f'echo "Which project?"; {question}; echo "$answer" >> ~/answer\n'
    )
    shell = enter(sshd)
    assert shell.run(["echo", "out"]).out == "out\n", "without input, it is at its end"
    chunks: list[bytes] = []

    def feed(stream: Stream, chunk: bytes, _feed: Callable[..., None] = Stream.feed) -> None:
        chunks.append(chunk)
        _feed(stream, chunk)

    def now_s() -> float:
        """The limit, when the question has arrived."""
        return LIMIT_S * (b"Which project?\n" in b"".join(chunks))

    monkeypatch.setattr(Stream, "feed", feed)
    monkeypatch.setattr(remote_command, "time", SimpleNamespace(monotonic=now_s))
    with pytest.raises(Unreachable, match=r"began no command within .*Which project?") as caught:
        shell.run(["cat"], input=b"secret\n" * 9999, limit_s=LIMIT_S)
    assert "ask nothing" in caught.value.remedy
    assert "secret" not in (sshd.home / "answer").read_text()


def test_a_file_is_replaced_whole_and_has_its_mode(shell: Shell, sshd: Sshd) -> None:
    path = sshd.home / "a b'c"
    shell.write(str(path), b"one")
    shell.write(str(path), b"two" * 100_000, mode=0o600)
    assert path.read_bytes() == b"two" * 100_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in sshd.home.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("root_mode", "file_mode"), [(0o700, 0o600), (0o755, 0o644), (0o2770, 0o660), (0o2775, 0o664)]
)
def test_files_and_folders_in_a_remote_data_root_take_after_it(
    shell: Shell, sshd: Sshd, tmp_path: Path, root_mode: int, file_mode: int
) -> None:
    root = sshd.home / "root"
    root.mkdir()
    root.chmod(root_mode)
    os.chown(root, -1, os.getgid() if os.geteuid() else 4200)
    (tmp_path / "code").write_bytes(b"x")
    (tmp_path / "code").chmod(0o700)
    with shell.files() as files:
        files.write(f"{root}/status.json", b"{}")
        files.create(f"{root}/job.lock", b"{}")
        files.send(tmp_path / "code", f"{root}/code", None)
        files.make_folder(f"{root}/attempts")
        files.make_folder(f"{root}/v1", is_read_only=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}
    assert modes == {
        "status.json": file_mode,
        "job.lock": file_mode,
        "code": file_mode | (file_mode & 0o444) >> 2,
        "attempts": root_mode,
        "v1": root_mode & ~0o022,
    }
    assert {path.stat().st_gid for path in root.iterdir()} == {root.stat().st_gid}


def test_a_secret_is_at_no_moment_readable_for_others(
    shell: Shell, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []

    def record_modes(*_: object) -> None:
        modes.extend(stat.S_IMODE(entry.stat().st_mode) for entry in sshd.home.iterdir())

    source = sshd.home.parent / "key"
    source.write_bytes(b"k" * 200_000)
    source.chmod(0o600)
    with source.open("rb") as file:
        files = shell._files()
        files._put(file, 200_000, str(sshd.home / "key"), 0o600, record_modes)
    assert set(modes) == {0o600}


def test_a_file_is_read_from_anywhere_in_it(shell: Shell, sshd: Sshd) -> None:
    content = bytes(range(256)) * 2000
    (sshd.home / "log").write_bytes(content)
    path = str(sshd.home / "log")
    assert shell.read(path) == content
    assert shell.read(path, 1000, 70_000) == content[1000:71_000]
    assert shell.read(path, len(content) - 5) == content[-5:]
    assert shell.read(path, len(content) + 5) == b""
    assert shell.read("/proc/self/stat", 0, 100)
    with pytest.raises(FileNotFoundError):
        shell.read(str(sshd.home / "nothing"))


def test_a_folder_is_listed(shell: Shell, sshd: Sshd) -> None:
    (sshd.home / "b").mkdir()
    (sshd.home / "a").write_bytes(b"123")
    files = [(entry.path, entry.bytes, entry.is_folder) for entry in shell.listing(str(sshd.home))]
    assert files[0] == (str(sshd.home / "a"), 3, False)
    assert (files[1][0], files[1][2]) == (str(sshd.home / "b"), True)
    with pytest.raises(FileNotFoundError):
        shell.listing(str(sshd.home / "nothing"))
    (sshd.home / "c").mkdir()
    (sshd.home / "c" / "caf\udce9").touch()
    with pytest.raises(BackendError, match="not UTF-8"):
        shell.listing(str(sshd.home / "c"))


def test_files_travel_both_ways_and_report_their_progress(
    shell: Shell, sshd: Sshd, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 20_000
    source = tmp_path / "wheel"
    source.write_bytes(content)
    source.chmod(0o755)
    sent: list[tuple[int, int]] = []
    shell.send(source, str(sshd.home / "wheel"), lambda done, total: sent.append((done, total)))
    assert (sshd.home / "wheel").read_bytes() == content
    assert (sshd.home / "wheel").stat().st_mode & 0o111
    assert sent[-1] == (len(content), len(content))
    assert [done for done, _ in sent] == sorted({done for done, _ in sent})
    back: list[tuple[int, int]] = []
    target = tmp_path / "back"
    shell.fetch(str(sshd.home / "wheel"), target, lambda done, total: back.append((done, total)))
    assert target.read_bytes() == content
    assert back[-1] == (len(content), len(content))


def test_a_cancelled_transfer_leaves_no_file(shell: Shell, sshd: Sshd, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise Enough

    (tmp_path / "here").mkdir()
    (tmp_path / "wheel").write_bytes(bytes(3_000_000))
    with pytest.raises(Enough):
        shell.send(tmp_path / "wheel", str(sshd.home / "wheel"), stop)
    assert list(sshd.home.iterdir()) == []
    (sshd.home / "wheel").write_bytes(bytes(3_000_000))
    with pytest.raises(Enough):
        shell.fetch(str(sshd.home / "wheel"), tmp_path / "here" / "wheel", stop)
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("get", ["fetch", "read"])
def test_each_piece_of_a_file_is_read_once_and_few_are_kept(
    get: str, shell: Shell, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: list[int] = []
    kept_chunks: set[int] = set()
    threads: set[threading.Thread] = set()
    request = paramiko.SFTPClient._async_request

    def count(client: paramiko.SFTPClient, file: Any, kind: int, *values: Any) -> int:
        if kind == CMD_READ:
            offsets.append(int(values[1]))
            kept_chunks.add(len(file._prefetch_extents) + len(file._prefetch_data))
            threads.add(threading.current_thread())
        return request(client, file, kind, *values)

    content = os.urandom(10_000_000)
    (sshd.home / "wheel").write_bytes(content)
    monkeypatch.setattr(paramiko.SFTPClient, "_async_request", count)
    if get == "read":
        assert shell.read(str(sshd.home / "wheel"), limit_bytes=len(content)) == content
    else:
        shell.fetch(str(sshd.home / "wheel"), tmp_path / "wheel", None)
        assert (tmp_path / "wheel").read_bytes() == content
    assert sorted(offsets) == list(range(0, len(content), 32_768))
    assert max(kept_chunks) < 64
    assert threads == {threading.current_thread()}


def test_f52_a_full_disk_is_named(
    make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell], tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    shell = enter(make_sshd(small_disk=tmp_path / "small"))
    shell.write(f"{tmp_path}/small/fits", b"1" * 1000)
    with pytest.raises(BackendError, match=r"The disk of .*small on .* is full"):
        shell.write(f"{tmp_path}/small/too-large", bytes(1_000_000))
    assert [entry.path for entry in shell.listing(f"{tmp_path}/small")] == [
        f"{tmp_path}/small/fits"
    ]


def test_f52_no_permission_is_named(
    make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell]
) -> None:
    # Root may do anything, so the server itself forbids it.
    sshd = make_sshd("Subsystem sftp internal-sftp -R")
    with pytest.raises(BackendError, match=r"may not write .*permission denied") as caught:
        enter(sshd).write(str(sshd.home / "file"), b"content")
    assert str(sshd.home) in caught.value.remedy


def test_f52_a_missing_folder_and_a_server_without_sftp_are_named(
    shell: Shell, make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell]
) -> None:
    with pytest.raises(BackendError, match="has no folder /no/such"):
        shell.write("/no/such/file", b"content")
    bare = enter(make_sshd("Subsystem other /bin/false"))
    with pytest.raises(LoginRefused, match="no file transfer"):
        bare.write("/tmp/file", b"content")
    assert bare.run(["true"]).ok


def test_one_session_at_a_time_is_enough(
    make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell], tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    sshd = make_sshd("MaxSessions 1", small_disk=tmp_path / "small")
    shell, path = enter(sshd), str(sshd.home / "file")
    shell.write(path, b"one")
    assert shell.run(["cat", path]).out == "one"
    assert shell.run(["cat", path]).out == "one"
    assert shell.read(path) == b"one"
    with shell.files() as files:
        assert shell.run(["rm", path]).ok
        assert files.listing(str(sshd.home)) == ()
    # How much room is left is asked by a command, and the half file is taken away after it.
    with pytest.raises(BackendError, match=r"The disk of .*small on .* is full"):
        shell.write(f"{tmp_path}/small/too-large", bytes(1_000_000))
    assert shell.listing(f"{tmp_path}/small") == ()


def test_a_server_that_allows_no_session_is_named(
    make_sshd: Callable[..., Sshd], enter: Callable[[Sshd], Shell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_client, "_NEXT_SESSION_S", 0.1)
    shell = enter(make_sshd("MaxSessions 0"))
    for ask in (lambda: shell.run(["true"]), lambda: shell.listing("/")):
        with pytest.raises(LoginRefused, match="allows no session") as caught:
            ask()
        assert "MaxSessions 10" in caught.value.remedy


def test_a_connection_that_breaks_is_a_sentence(shell: Shell, sshd: Sshd) -> None:
    assert shell.listing(str(sshd.home)) == ()
    sshd.stop()
    with pytest.raises(Unreachable, match="broke off"):
        shell.run(["true"])
    with pytest.raises(Unreachable, match="broke off"):
        shell.listing(str(sshd.home))
    with pytest.raises(Unreachable, match="broke off"):
        shell.write(str(sshd.home / "file"), b"content")


def test_a_connection_that_breaks_under_a_command_is_a_sentence(shell: Shell, sshd: Sshd) -> None:
    with pytest.raises(Unreachable, match="broke off"):
        shell.run(["sh", "-c", "echo begun; sleep 30"], on_line=lambda _: sshd.stop())


def test_a_node_that_stands_still_delays_no_command(
    shell: Shell, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_client, "_GRACE_S", 0.5)
    assert shell.listing(str(sshd.home)) == ()
    sshd.freeze()
    with pytest.raises(Unreachable):
        shell.run(["true"], limit_s=1.0)
    shell.close()


def test_an_answer_to_files_that_never_comes_is_given_up(
    shell: Shell, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first answer may take longer than the limit of the second one.
    assert shell.listing(str(sshd.home)) == ()
    sshd.freeze()
    monkeypatch.setattr(shell, "_silence_s", 1.0)
    shell._sftp.get_channel().settimeout(1.0)
    with pytest.raises(Unreachable, match="has not answered for 1 s"):
        shell.listing(str(sshd.home))


def test_closing_from_another_thread_ends_a_command(shell: Shell) -> None:
    has_begun = threading.Event()

    def close() -> None:
        has_begun.wait(LIMIT_S)
        shell.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(Unreachable):
        shell.run(["sh", "-c", "echo begun; sleep 30"], on_line=lambda _: has_begun.set())
    closing.join(LIMIT_S)
    assert not closing.is_alive()
    shell.close()
