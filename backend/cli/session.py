"""A call of the command line: its services, its progress, its questions and its output."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.base import log
from backend.base.errors import BackendError, unforeseen
from backend.cli import questions, runs
from backend.cli.printing import (
    FAILED,
    OK,
    Answer,
    Note,
    Part,
    print_json,
    print_note,
    print_part,
)
from backend.cli.progress_bars import ProgressBars
from backend.records.base import account

if TYPE_CHECKING:
    from backend.cli.command import Command
    from backend.records.base.remote_root import RemoteRoot
    from backend.records.nodes.entry import HostKey
    from backend.records.studies.table import StudyTable
    from backend.services.context.container import Services

Window = Callable[["Path | RemoteRoot", "Path | None", "int | None"], int]
"""Opens the window on a data root and catalogue; a number starts the example with it."""
Draw = Callable[["StudyTable", str], bytes]
"""Draws the plot of a study for a file with this ending."""


class Session:
    """A call of the command line.

    Attributes:
        as_json: The result is one JSON document.
        can_ask: A user at a terminal can be asked.
        open_window: Opens the window, which the command line does not know.
        draw: Draws the plot of a study; None if it cannot.
    """

    def __init__(
        self, options: argparse.Namespace, open_window: Window, draw: Draw | None = None
    ) -> None:
        self._options = vars(options)
        self.as_json: bool = self._options.get("json", False)
        self.can_ask = not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()
        self.open_window = open_window
        self.draw = draw
        if self._options.get("verbose", False):
            log.to_stderr()

    @property
    def root_and_catalogue(self) -> tuple[Path | RemoteRoot, Path | None]:
        """The data root and the catalogue."""
        data_root = self._options.get("data_root") or Path.home() / "ringmaster"
        return data_root, self._options.get("catalogue")

    @cached_property
    def services(self) -> Services:
        """The services of the data root, opened when they are first used."""
        from backend.services.context.container import open_services

        return open_services(
            *self.root_and_catalogue,
            accept=self.accept_key,
            passphrase=questions.ask_passphrase if self.can_ask else None,
            is_trusted_key=self._is_accepted_key,
        )

    @cached_property
    def progress(self) -> ProgressBars:
        return ProgressBars(is_quiet=self.as_json or not sys.stderr.isatty())

    def accept_key(self, key: HostKey) -> bool:
        """Return whether ``--accept-key`` names a host key, or the user accepts it."""
        return self._is_accepted_key(key) or (self.can_ask and questions.ask_about_key(key))

    def _is_accepted_key(self, key: HostKey) -> bool:
        return key.fingerprint in self._options.get("accept_key", ())

    def run(self, command: Command | None) -> int:
        """Run a command, or open the window; return the exit code.

        A failure of the world is one sentence; a bug keeps its traceback.
        """
        try:
            account.prepare_account()
            with closing(self):
                code = (
                    self.call(command)
                    if command
                    else self.open_window(*self.root_and_catalogue, None)
                )
            sys.stdout.flush()
        except BackendError as error:
            return self._report_failure(error)
        except KeyboardInterrupt:  # By the user.
            print_note("Interrupted.")
            return FAILED
        except BrokenPipeError:
            # Who read the output has enough of it (``| head``). Python would complain at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OK
        except OSError as error:
            return self._report_failure(unforeseen(error))
        return code

    def _report_failure(self, error: BackendError) -> int:
        data = {"error": {"sentence": error.message, "remedy": error.remedy}}
        return self.print(Answer(data, Note(error.with_remedy), has_failed=True))

    def call(self, command: Command) -> int:
        """Run a command with what was typed; print its result, and return its exit code."""
        parameters = tuple(command.parameters())
        option = self._options.get
        typed_parameters = [
            (parameter, value)
            for parameter in parameters
            if (value := option(parameter.name)) is not None
        ]
        if command.reads_jobs:
            job_texts = [value for parameter, value in typed_parameters if parameter.spec.is_job]
            runs.reap(self.services, job_texts[0] if job_texts else None)
        values: dict[str, Any] = {"session": self, "group": command.path[0]}
        values = {
            name: values.get(name) or getattr(self, name) for name in command.session_parameters
        }
        for parameter, value in typed_parameters:
            value = tuple(value) if parameter.is_many else value
            values[parameter.name] = (
                parameter.spec.resolve(self.services, value) if parameter.spec.resolve else value
            )
        answer = command.function(**values)
        return answer if isinstance(answer, int) else self.print(answer)

    def print(self, answer: Answer) -> int:
        """Print a result as JSON or as text, and return its exit code."""
        self.progress.close()
        if self.as_json:
            print_json(answer.data() if callable(answer.data) else answer.data)
        else:
            print_part(answer.parts)
        return FAILED if answer.has_failed else OK

    def print_early(self, part: Part) -> None:
        """Print a part of the result before its end; JSON has only the end."""
        if not self.as_json:
            self.progress.close()
            print_part(part)

    def close(self) -> None:
        self.progress.close()
        if "services" in vars(self):
            self.services.close()


def has_display() -> bool:
    """Return whether a window or a browser can be shown."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
