"""A desktop of its own: an invisible X server, a window manager, a tray, and hands."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import LIMIT_S, wait_for

FOLDER = Path(__file__).parent
PROGRAMS = ("Xvfb", "openbox", "trayer", "xdotool", "xrandr")
WIDTH, HEIGHT = 2560, 1000
LEFT, RIGHT = (0, 0, 1400, HEIGHT), (1400, 0, 1160, HEIGHT)
_STEADY_COUNT = 20
"""So often in a row something has to be true that might be over at once."""


@dataclass(frozen=True)
class Part:
    """Something the user sees, with its place on the screen."""

    kind: str
    name: str
    text: str
    description: str
    is_chosen: bool
    has_focus: bool
    box: tuple[int, int, int, int]

    @property
    def center(self) -> tuple[int, int]:
        x, y, width, height = self.box
        return x + width // 2, y + height // 2


class Desk:
    """The server and what runs on it; `close` ends them all."""

    def __init__(self, folder: Path) -> None:
        missing_programs = [name for name in PROGRAMS if shutil.which(name) is None]
        assert not missing_programs, (
            f"{missing_programs} are not installed; installers/test brings them"
        )
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        read, write = os.pipe()
        size = f"{WIDTH}x{HEIGHT}x24"
        server = ["Xvfb", "-displayfd", str(write), "-screen", "0", size, "-nolisten", "tcp"]
        self._start([*server, "-noreset", "-dpi", "96"], dict(os.environ), pass_fds=(write,))
        os.close(write)
        with os.fdopen(read) as pipe:
            self.display = f":{pipe.readline().strip()}"
        assert self.display != ":", "the X server did not start"
        ready_file = folder / "ready"
        self._start(
            ["openbox", "--sm-disable", "--startup", f"touch {ready_file}"], self.environment
        )
        wait_for(ready_file.exists, "the window manager")

    @property
    def environment(self) -> dict[str, str]:
        variables = {
            k: v for k, v in os.environ.items() if not k.startswith(("QT_", "DBUS_", "XDG_"))
        }
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        return {
            **variables,
            "DISPLAY": self.display,
            "QT_QPA_PLATFORM": "xcb",
            "HOME": str(home),
            # No session bus: the tray is that of X.
            "DBUS_SESSION_BUS_ADDRESS": "disabled:",
            "LC_ALL": "C.UTF-8",
        }

    def start_tray(self) -> None:
        self._start(["trayer", "--edge", "bottom", "--align", "right"], self.environment)

    def set_screens(self, *boxes: tuple[int, int, int, int]) -> None:
        """Screens next to each other, as the server reports them to programs."""
        monitor_lines = self._do("xrandr", "--listmonitors").splitlines()[1:]
        monitor_names = [line.split()[1].lstrip("+*") for line in monitor_lines]
        for number, (x, y, width, height) in enumerate(boxes):
            geometry = f"{width}/{width // 4}x{height}/{height // 4}+{x}+{y}"
            output = "screen" if number == 0 else "none"
            if f"m{number}" not in monitor_names:
                self._do("xrandr", "--setmonitor", f"m{number}", geometry, output)
        for name in monitor_names:
            if name.startswith("m") and int(name[1:]) >= len(boxes):
                self._do("xrandr", "--delmonitor", name)

    def hands(self, *arguments: object) -> None:
        """Run xdotool with these arguments."""
        self._do("xdotool", *map(str, arguments))

    def click(self, point: tuple[int, int]) -> None:
        self.hands("mousemove", "--sync", *point, "click", 1)

    def drag(
        self, start: tuple[int, int], end: tuple[int, int], until: Callable[[], object]
    ) -> None:
        """Pull something there; it is let go when ``until`` says that it is being taken."""
        self.hands("mousemove", "--sync", *start, "mousedown", 1)
        try:
            for part in range(1, 5):
                x, y = (b + (e - b) * part // 4 for b, e in zip(start, end, strict=True))
                self.hands("mousemove", "--sync", x, y)
            # Not to where it is: xdotool waits 15 s for a pointer that does not move.
            offsets = iter(range(1, 10_000))

            def is_taken() -> object:
                self.hands("mousemove", "--sync", end[0] + next(offsets) % 2, end[1])
                return until()

            # Qt enters a window, leaves it 16 ms later and enters again: what is let go between
            # falls nowhere, and its source gets the answer that it was copied.
            wait_for(
                lambda: all(is_taken() for _ in range(_STEADY_COUNT)), "what is dragged to be taken"
            )
        finally:
            self.hands("mouseup", 1)

    def start_program(self, arguments: Sequence[str], name: str, **variables: str) -> Program:
        environment = {**self.environment, **variables}
        path = self._folder / f"{name}.socket"
        command = [sys.executable, str(FOLDER / "probe.py"), str(path), *arguments]
        return Program(self._start(command, environment), path)

    def start_neighbour(self, gives: Path, box: Sequence[int]) -> Neighbour:
        command = [sys.executable, str(FOLDER / "neighbour.py"), str(gives), json.dumps(list(box))]
        return Neighbour(self._start(command, self.environment))

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _do(self, *command: str) -> str:
        completed = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=30
        )
        assert completed.returncode == 0, f"{command}: {completed.stderr}"
        return completed.stdout

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[str]:
        log = (self._folder / f"{Path(command[0]).name}-{len(self._processes)}.log").open("w")
        with log:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                **options,
            )
        self._processes.append(process)
        return process


class Program:
    """The program, seen from outside."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self.process = process
        self._path = path
        self._line: Any = None

    def read_windows(self) -> dict[str, Any]:
        """The content of its windows now; {} while it begins."""
        assert self.process.poll() is None, f"it ended with {self.process.returncode}"
        if self._line is None:
            if not self._path.exists():
                return {}
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(LIMIT_S)
            try:
                connection.connect(str(self._path))
            except ConnectionRefusedError:
                connection.close()
                return {}
            self._line = connection.makefile("rwb")
            # The file keeps it open.
            connection.close()
        self._line.write(b"?")
        self._line.flush()
        content: dict[str, Any] = json.loads(self._line.readline() or b"{}")
        return content

    def windows(self, kind: str) -> list[dict[str, Any]]:
        return [
            window for window in self.read_windows().get("windows", ()) if window["class"] == kind
        ]

    def window(self, kind: str = "MainWindow") -> dict[str, Any]:
        """The one window of this kind, as soon as it is there."""
        return wait_for(lambda: self.windows(kind), f"a {kind}")[0]

    def parts(self) -> Iterator[Part]:
        for window in self.read_windows().get("windows", ()):
            for part in window["parts"]:
                yield Part(
                    part["class"],
                    part["name"],
                    part["text"],
                    part["description"],
                    part["is_chosen"],
                    part["has_focus"],
                    tuple(part["box"]),
                )

    def find(self, name: str, kind: str = "") -> Part:
        """Wait for a part with this name and return it."""

        def find_part() -> Part | None:
            for part in self.parts():
                if part.name == name and kind in ("", part.kind):
                    return part
            return None

        part: Part = wait_for(find_part, f"“{name}”")
        return part

    def at_rest(self, name: str) -> tuple[int, int]:
        """Wait until a part no longer moves and return its center."""
        centers = [self.find(name).center]

        def is_still() -> bool:
            centers.append(self.find(name).center)
            return len(centers) > _STEADY_COUNT and len(set(centers[-_STEADY_COUNT:])) == 1

        wait_for(is_still, f"“{name}” to stand still")
        return centers[-1]

    def has_part(self, name: str, kind: str = "") -> bool:
        return any(part.name == name and kind in ("", part.kind) for part in self.parts())

    def has_said(self, text: str) -> bool:
        """Return whether a toast has shown this text; toasts disappear after some seconds."""
        return text in self.read_windows().get("said", ())

    def hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class Neighbour:
    """The other program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.source, self.target = (tuple(point) for point in self.ask("where"))

    def ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self.hear(command)

    def hear(self, event_name: str) -> Any:
        """Return the value of the next event of this name; earlier events are dropped."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["what"] == event_name:
                return event["value"]
        raise AssertionError(f"it ended without “{event_name}”")
