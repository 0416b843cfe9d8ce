"""The exception that ended a program, as its log shows it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from backend.node.diagnosis.log_text import is_ordinary

_HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r'^[\s>]*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<name>.+))?')
_BOXED = re.compile(r"^[│|] +(?P<file>\S.*?):(?P<line>\d+) in (?P<name>\S+) *[│|]?$")
_BOXED_PATH = re.compile(r"^[│|] (?P<file>(?:[\\/]|[A-Za-z]:)\S*) *[│|]?$")
_BOXED_SOURCE = re.compile(r"^[│|] +❱ *\d+ [│|](?P<source>.*?)[│|]? *$")
_EXCEPTION_LINE = re.compile(
    r"^ ?(?P<kind>(?:[A-Za-z_]\w*\.)*[A-Z_]\w*(?:Error|Exception|Interrupt|Exit|Fault)"
    r"|(?:[A-Za-z_]\w*\.)+[Ee]rror)"
    r"(?: \(see above for traceback\))?(?P<rest>:.*)?$"
)
_AFTER_FRAMES = re.compile(r"^(?P<kind>(?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?P<rest>:.*)?$")
_JOINT = re.compile(
    r"^(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception):?$"
)
_IGNORED = re.compile(r"^.*Exception ignored in\b")
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]python\d|[/\\]python\d[\d.]*[/\\]lib[/\\]"
    r"|\.pyx$|^<(?!ipython|path)|^$|backend[/\\](?:training|node|records|errors)"
)
PACKAGES_PREFIX = "── packages of this error: "
"""A line that the guard of a failed rank writes: "torch 2.4.1, timm 1.0.9 (called here)"."""
_PACKAGE = re.compile(r"-packages[/\\](?:[^/\\]+\.egg[/\\])?(?P<name>\w+)")
_PASSING_ON = re.compile(r"\(\*\w+(?:\[0\])?, \*\*|\bgetattr\(")
_WRAPPER = re.compile(r"\S+: Caught \w+ in (?:DataLoader worker|replica|pin memory thread)")
_CLEANING = re.compile(r"[/\\](?:multiprocessing[/\\]util|weakref|logging[/\\]__init__)\.py$")
_LAST_LINES = 12
"""Lines that a program may still write after the exception that ends it; with more it was caught.
"""
_MESSAGE_LINES = 8
_CHAIN_LIMIT = 12


@dataclass(frozen=True)
class TracebackFrame:
    """``source`` and ``function`` are "" if the log does not show them."""

    file: str
    line: int
    index: int
    source: str = ""
    function: str = ""

    @property
    def is_of_library(self) -> bool:
        return bool(_LIBRARY.search(self.file))

    @property
    def package(self) -> str:
        """The installed package of the file, "" for the program and for Python's own."""
        match = _PACKAGE.search(self.file)
        return match["name"] if match else ""

    @property
    def only_passes_on(self) -> bool:
        """A library's function that does what its own caller asked for."""
        is_passing_on = self.function == "__getattr__" or _PASSING_ON.search(self.source)
        return self.is_of_library and bool(is_passing_on or not self.package)

    @property
    def file_name(self) -> str:
        return re.split(r"[/\\]", self.file)[-1]


@dataclass(frozen=True)
class LoggedException:
    """``index`` is that of the line with the type; ``text`` is "Type: message"."""

    kind: str
    text: str
    index: int
    end: int
    frames: tuple[TracebackFrame, ...] = ()
    packages: str = ""
    """Packages of the traceback and their versions, as the guard wrote them."""

    @property
    def text_and_functions(self) -> str:
        """``text``, "> code" of the program, and "@ file function" for each library function below.

        The code is the line of the innermost frame that is not in a library. Between them stand
        "< code" of the innermost frame, "= package" of the one that asked for what is missing,
        and "$ packages".
        """
        frames = itertools.takewhile(lambda frame: frame.is_of_library, reversed(self.frames))
        functions = [f"@ {frame.file} {frame.function}" for frame in frames]
        code = [f"> {self.user_frame.source}"] if self.user_frame is not None else []
        asking_frame = next((f for f in reversed(self.frames) if not f.only_passes_on), None)
        code += [f"< {frame.source}" for frame in self.frames[-1:]]
        code += [f"= {asking_frame.package}"] if asking_frame and asking_frame.package else []
        code += [f"$ {self.packages}"] if self.packages else []
        return "\n".join([self.text, *code, *reversed(functions)])

    @property
    def text_and_places(self) -> str:
        """`text_and_functions`, and "# file function" for each frame."""
        frame_lines = [f"# {frame.file} {frame.function}" for frame in self.frames]
        return "\n".join([self.text_and_functions, *frame_lines])

    @property
    def is_from_cleanup(self) -> bool:
        """Raised while Python shuts down or writes logs: it reports this and continues."""
        return any(_CLEANING.search(frame.file) for frame in self.frames)

    @property
    def is_wrapper(self) -> bool:
        """Only re-raises what another process raised, whose own traceback follows."""
        return bool(_WRAPPER.match(self.text))

    @property
    def user_frame(self) -> TracebackFrame | None:
        """The innermost frame that is not in a library."""
        return next((frame for frame in reversed(self.frames) if not frame.is_of_library), None)


def blank_ignored_exceptions(lines: Sequence[str]) -> list[str]:
    """Return the lines, with those about exceptions that Python ignored blanked."""
    blanked_lines = list(lines)
    index = 0
    while index < len(blanked_lines):
        if not _IGNORED.match(blanked_lines[index]):
            index += 1
            continue
        end = index
        while end + 1 < len(blanked_lines) and not _EXCEPTION_LINE.match(blanked_lines[end]):
            end += 1
            if end - index > 60 or (
                blanked_lines[end] and not _is_of_traceback(blanked_lines[end])
            ):
                break
        for blank_index in range(index, end + 1):
            blanked_lines[blank_index] = ""
        index = end + 1
    return blanked_lines


def _is_of_traceback(line: str) -> bool:
    return line.startswith((" ", "\t", _HEADER)) or bool(_EXCEPTION_LINE.match(line))


def final_exceptions(
    lines: Sequence[str], must_be_last: bool = True
) -> tuple[tuple[LoggedException, ...], ...]:
    """Return the exceptions at the end of a log, in order; each with its causes, the first one
    first.

    There are several when ranks share a log, or when a launcher reports another process. Empty if
    the program kept writing after them, so that they did not end it (``must_be_last``).
    """
    chains: list[tuple[LoggedException, ...]] = []
    end = len(lines) - 1
    slack = _LAST_LINES if must_be_last else len(lines)
    while len(chains) < _CHAIN_LIMIT:
        chain = _chain(lines, end, slack)
        if not chain:
            break
        if not chain[-1].is_from_cleanup and not (chains and chain[-1].is_wrapper):
            chains.insert(0, chain)
        if not must_be_last:
            break
        end = _first_frame_index(chain[0]) - 1
        slack = 0
    return tuple(chains)


def _chain(lines: Sequence[str], end: int, slack: int) -> tuple[LoggedException, ...]:
    exception = _search_backward(lines, end, slack)
    if exception is None:
        return ()
    chain = [exception]
    while len(chain) < _CHAIN_LIMIT:
        joint_index = _first_frame_index(chain[0]) - 1
        while joint_index >= 0 and (
            not lines[joint_index].strip() or lines[joint_index].startswith(_HEADER)
        ):
            joint_index -= 1
        if joint_index < 0 or not _JOINT.match(lines[joint_index].strip()):
            break
        earlier_exception = _search_backward(lines, joint_index - 1, 0)
        if earlier_exception is None:
            break
        chain.insert(0, earlier_exception)
    return tuple(chain)


def _first_frame_index(exception: LoggedException) -> int:
    return exception.frames[0].index if exception.frames else exception.index


def _search_backward(lines: Sequence[str], start: int, slack: int) -> LoggedException | None:
    ordinary_count = 0
    for index in range(start, -1, -1):
        line = lines[index]
        if not line.strip() or _JOINT.match(line.strip()):
            continue
        exception = _exception_at(lines, index, start)
        if exception is not None:
            later_count = sum(
                is_ordinary(later_line) for later_line in lines[exception.end : start + 1]
            )
            return exception if later_count <= slack else None
        ordinary_count += is_ordinary(line)
        if ordinary_count > slack + _MESSAGE_LINES + 120:
            return None
    return None


def _exception_at(lines: Sequence[str], index: int, last_index: int) -> LoggedException | None:
    """Return the exception whose type is in this line."""
    line = lines[index]
    match = _EXCEPTION_LINE.match(line)
    below_frames = _AFTER_FRAMES.match(line)
    if match is None and below_frames is None:
        return None
    frames = _frames_before(lines, index)
    if match is None and frames and frames[-1].index >= index - 4:
        match = below_frames
    if match is None:
        return None
    end = index + 1
    while end <= last_index and end - index < _MESSAGE_LINES and _continues_message(lines[end]):
        end += 1
    text = "\n".join(lines[index:end]).lstrip()
    packages = next((line for line in lines[end:] if line.startswith(PACKAGES_PREFIX)), "")
    packages = packages[len(PACKAGES_PREFIX) :]
    return LoggedException(match["kind"].rpartition(".")[2], text, index, end, frames, packages)


def _continues_message(line: str) -> bool:
    """Return whether the line can continue an exception's message.

    A line that a working program writes does not: the exception was caught.
    """
    is_text = bool(line.strip()) and not is_ordinary(line) and not line.startswith("── ")
    return is_text and not line.startswith(_HEADER) and not _FRAME.match(line)


def _frames_before(lines: Sequence[str], index: int) -> tuple[TracebackFrame, ...]:
    if index > 0 and lines[index - 1].startswith("╰"):
        return _boxed_frames(lines, index - 1)
    frames: list[TracebackFrame] = []
    position = index - 1
    while position >= 0:
        line = lines[position]
        match = _FRAME.match(line)
        if match is not None:
            frames.append(
                TracebackFrame(
                    *(match["file"], int(match["line"]), position, _source(lines, position)),
                    match["name"] or "",
                )
            )
        elif line.startswith(_HEADER) or not (
            line.startswith((" ", "\t", ">")) or _is_below_bare_frame(lines, position)
        ):
            break
        position -= 1
    return tuple(reversed(frames))


def _boxed_frames(lines: Sequence[str], bottom: int) -> tuple[TracebackFrame, ...]:
    """Read the frames of a traceback that Rich drew into a box, whose last line is ``bottom``."""
    frames: list[TracebackFrame] = []
    source = ""
    for position in range(bottom - 1, -1, -1):
        line = lines[position]
        if not line.startswith(("│", "|")):
            break
        code = _BOXED_SOURCE.match(line)
        if code is not None:
            source = code["source"].strip(" │|")
        match = _BOXED.match(line)
        if match is None:
            continue
        path_match = _BOXED_PATH.match(lines[position - 1]) if position else None
        folder = path_match["file"] if path_match is not None else ""
        file = folder + match["file"]
        frames.append(TracebackFrame(file, int(match["line"]), position, source, match["name"]))
        source = ""
    return tuple(reversed(frames))


def _is_below_bare_frame(lines: Sequence[str], index: int) -> bool:
    """Return whether a line is the code below a frame, in a traceback that lost its indentation."""
    return index > 0 and lines[index - 1].startswith('File "')


def _source(lines: Sequence[str], index: int) -> str:
    """Return the line of code that a traceback shows below a frame."""
    line = lines[index + 1] if index + 1 < len(lines) else ""
    return line.strip() if line.startswith((" ", "\t")) and not _FRAME.match(line) else ""
