"""Who may import whom; the contracts stand in pyproject.toml."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest


def test_import_contracts_are_kept() -> None:
    # In a process of its own: it would turn off the loggers of this one.
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout


_TREES = ("app", "backend", "widgets")
_KILLS = {"kill", "killpg", "pidfd_send_signal", "pthread_kill", "send_signal", "terminate"}
_KILLERS = {"kill", "killall", "pkill", "taskkill"}
_OTHER_OWNERS = ("process_signals", "process_identity", "self", "arguments", "lifecycle")
"""Owners of such a name that are no processes. A job is killed by a request to its supervisor."""


def test_one_module_sends_signals_to_processes() -> None:
    """`process_signals` identifies a process before; see its description."""
    root = Path(__file__).resolve().parents[1]
    locations = [
        f"{path.relative_to(root)}:{line}"
        for path in (path for tree in _TREES for path in (root / tree).rglob("*.py"))
        if path != root / "backend/base/process_signals.py"
        for line in signal_lines(path.read_text("utf-8"))
    ]
    assert locations == []


@pytest.mark.parametrize(
    "code",
    [
        "os.kill(pid, 9)",
        "os.killpg(pid, 9)",
        "from os import kill",
        "from signal import pidfd_send_signal as send",
        "after(process.terminate)",
        "psutil.Process(pid).kill()",
        "self._process.send_signal(9)",
        "subprocess.run(['kill', '--', f'-{pid}'])",
        "shell.run(('env', 'pkill', name))",
        "shell.run(f'kill {pid}')",
        "def end(child: Popen) -> None:\n    child.kill()",
    ],
)
def test_every_way_to_a_process_is_seen(code: str) -> None:
    assert signal_lines(code)


@pytest.mark.parametrize(
    "code",
    [
        "process_signals.kill(child)",
        "process_identity.send_signal(one, SIGTERM)",
        "partial(self._jobs.lifecycle.kill, job)",
        "def kill(self): pass",
        "'kill now'",
        "signals.kill_requested.connect(self.kill)",
    ],
)
def test_code_that_only_shares_the_name_is_no_signal(code: str) -> None:
    assert not signal_lines(code)


def signal_lines(text: str) -> list[int]:
    """Return the lines that signal a process in another way than through `process_signals`."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            is_signal = node.attr in _KILLS and not owner.endswith(_OTHER_OWNERS)
        elif isinstance(node, ast.ImportFrom):
            is_signal = any(name.name in _KILLS for name in node.names)
        elif isinstance(node, ast.List | ast.Tuple):
            is_signal = any(getattr(element, "value", "") in _KILLERS for element in node.elts)
        elif isinstance(node, ast.JoinedStr):
            is_signal = ast.unparse(node)[2:].split(" ")[0] in _KILLERS
        else:
            is_signal = False
        if is_signal:
            lines.append(node.lineno)
    return lines


_ANSWERS = {
    *("FileNotFoundError", "NotADirectoryError", "FileExistsError", "BlockingIOError"),
    *("ProcessLookupError", "ChildProcessError", "PackageNotFoundError", "metadata"),
    *("TimeoutExpired", "subprocess", "Empty", "queue", "OutOfTime", "tool_protocol"),
    "KeyboardInterrupt",
}
"""Errors that are an answer: it is not here, it is here already, it is not ready yet."""


def test_no_failure_of_the_world_is_swallowed_in_silence() -> None:
    """Each handler raises, uses or logs the error, or a comment says why it need not.

    Not so for an error that is an answer by itself.
    """
    root = Path(__file__).resolve().parents[1]
    silent: list[str] = []
    for path in (path for tree in (*_TREES, "installers") for path in (root / tree).rglob("*.py")):
        text = path.read_text("utf-8")
        # A file that is sent to nodes by itself has no log.
        if "backend" not in path.parts or "from backend" in text:
            lines, name = text.splitlines(), path.relative_to(root).as_posix()
            silent += [
                f"{name}:{handler.lineno}"
                for handler in ast.walk(ast.parse(text))
                if isinstance(handler, ast.ExceptHandler) and _is_silent(handler, lines)
            ]
    assert silent == []


def _is_silent(handler: ast.ExceptHandler, lines: list[str]) -> bool:
    kinds = list(ast.walk(handler.type or handler))
    caught_names = {node.id for node in kinds if isinstance(node, ast.Name)}
    caught_names |= {node.attr for node in kinds if isinstance(node, ast.Attribute)}
    if handler.type is not None and not caught_names - _ANSWERS:
        return False
    body = [node for part in handler.body for node in ast.walk(part)]
    return not (
        any(isinstance(node, ast.Name) and node.id == handler.name for node in body)
        or any(isinstance(node, ast.Raise) for node in body)
        or "log." in ast.unparse(handler)
        or any("#" in line for line in lines[handler.lineno - 1 : handler.end_lineno])
    )
