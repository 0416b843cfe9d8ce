"""Make the environment that Ringmaster runs in, or find it complete and do nothing.

An environment is a folder in the user's cache, named after all of its inputs: clones of the project
share it, and a changed version makes another one next to it.  A complete environment is never
changed, because jobs outlive the desktop and may be running from it.  The last file written is
`ringmaster.json`; a folder without it is incomplete and is made again, from pip's cache and the
cached Horovod wheel.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from installers import horovod_wheel, system_packages
from installers.console import Argument, PreparationError, Progress, run_logged
from installers.files import locked, remove, replace_file, scratch

STAMP = "ringmaster.json"
_PACKAGES_STAMP = "packages-are-installed"
_PROJECT = Path(__file__).resolve().parent.parent
_NEEDED_BYTES = 3_000_000_000
_EXTRAS = {"headless": ("node",), "window": ("node",), "test": ("node", "dev")}
_FOREIGN = re.compile(
    r"(PYTHON(PATH|HOME)|PIP_(TARGET|PREFIX|CONSTRAINT)|LD_LIBRARY_PATH|LIBRARY_PATH|CC|CXX"
    r"|C(PLUS_INCLUDE_)?PATH|C(XX|PP)?FLAGS|LDFLAGS|(HOROVOD|CMAKE)_.*|CUDA.*)$"
)
_PIP_NEWS = re.compile(r"^\s*(Collecting|Downloading|Processing|Installing collected)\s*(\S*)(.*)$")


@dataclass(frozen=True)
class Recipe:
    """All inputs of an environment. ``horovod`` is "" if it is left out."""

    python: str
    machine: str
    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    horovod: str

    @classmethod
    def read(cls, project: Path, purpose: str) -> Recipe:
        """Read the inputs from a checkout, for this Python."""
        table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
        extras = table["optional-dependencies"]
        wanted = table["dependencies"] + [r for name in _EXTRAS[purpose] for r in extras[name]]
        lines = (project / "installers/constraints.txt").read_text("utf-8").splitlines()
        is_without = os.environ.get("RINGMASTER_WITHOUT_HOROVOD") == "1"
        return cls(
            python="{}.{}".format(*sys.version_info[:2]),
            machine=platform.machine(),
            requirements=tuple(sorted(set(wanted))),
            constraints=tuple(s for s in map(str.strip, lines) if s and not s.startswith("#")),
            horovod="" if is_without else horovod_wheel.recipe(),
        )

    @property
    def name(self) -> str:
        """The name of the environment's folder."""
        content = json.dumps(asdict(self), sort_keys=True).encode()
        return f"python{self.python}-{hashlib.sha256(content).hexdigest()[:16]}"


class Preparation:
    """Preparation of an environment for one purpose."""

    def __init__(
        self,
        project: Path,
        cache: Path,
        purpose: str,
        progress: Progress,
        build: Callable[[horovod_wheel.Workshop], Path] = horovod_wheel.build_wheel,
    ) -> None:
        self._build = build
        self._constraints = project / "installers/constraints.txt"
        self._purpose = purpose
        self._progress = progress
        self._recipe = Recipe.read(project, purpose)
        self._superset = Recipe.read(project, "test")
        self._wheels = cache / "wheels"
        self._environments = cache / "environments"
        self._environments.mkdir(parents=True, exist_ok=True)
        self._log = self._environments / f"{self._recipe.name}.log"

    def python(self) -> Path:
        """Return the Python of a complete environment, which is made now if there is none."""
        horovod = self._recipe.horovod
        if horovod and any(character.isspace() for character in str(self._environments)):
            raise PreparationError(
                f"Horovod cannot be built in {str(self._environments)!r} because of the blank in "
                "that path; set XDG_CACHE_HOME to a folder without a blank, or start with "
                "--without-horovod."
            )
        ready = [f for f in map(self._folder, (self._recipe, self._superset)) if is_whole(f)]
        needs = system_packages.LIBRARIES[self._purpose]
        system_packages.provide(needs, self._log, self._progress)
        if horovod and not ready and not any(self._wheels.glob(f"*-{horovod}")):
            with _or_without_horovod():
                system_packages.provide(system_packages.BUILD, self._log, self._progress)
        if self._purpose != "headless":
            system_packages.recommend_fonts(self._log, self._progress)
        if ready:
            return ready[0] / "bin/python"
        folder = self._folder(self._recipe)
        lock = self._environments / f"{folder.name}.lock"
        with locked(lock, "the environment", self._progress) as held:
            if not is_whole(folder):
                self._make(folder, held)
        return folder / "bin/python"

    def _folder(self, recipe: Recipe) -> Path:
        return self._environments / recipe.name

    def _make(self, folder: Path, lock: int) -> None:
        self._progress.note(f"Setting up {folder}, once.")
        python = folder / "bin/python"
        # A build needs 2 GB of temporary space; a /tmp in memory often has less.
        with scratch(self._environments / f"{folder.name}.tmp") as temporary:
            environment = clean_environment(temporary)
            if not ((folder / _PACKAGES_STAMP).exists() and os.access(python, os.X_OK)):
                if folder.exists():
                    self._progress.note("An earlier set-up did not finish; it is started again.")
                    remove(folder)
                self._clear_halves()
                self._ask_for_space()
                venv = (sys.executable, "-m", "venv", folder)
                self._run("Making the environment", venv, lock, environment)
                self._install(python, self._recipe.requirements, lock, environment)
                (folder / _PACKAGES_STAMP).touch()
            facts = {"python": str(python), "requirements": self._recipe.requirements}
            facts |= asdict(horovod_wheel.Ingredients.of(python))
            if self._recipe.horovod:
                with _or_without_horovod():
                    wheel = self._install_horovod(python, lock, environment)
                facts["horovod_wheel"] = str(wheel)
        replace_file(folder / STAMP, json.dumps(facts, indent=2) + "\n")
        others = [other for other in self._environments.iterdir() if is_whole(other)]
        if len(others) > 1:
            self._progress.note(
                f"Environments of other versions are kept in {self._environments}; those that no "
                "job runs from can be deleted."
            )

    def _clear_halves(self) -> None:
        """Free the gigabytes of other versions' set-ups that did not finish."""
        for lock in self._environments.glob("*.lock"):
            folder = lock.with_suffix("")
            if folder.exists() and not (folder / STAMP).exists():
                with contextlib.suppress(BlockingIOError), locked(lock, "it", None):
                    remove(folder)

    def _ask_for_space(self) -> None:
        free = shutil.disk_usage(self._environments).free
        if free < _NEEDED_BYTES:
            raise PreparationError(
                f"The disk that holds {self._environments} has {free / 1e9:.1f} GB free and an "
                f"environment needs {_NEEDED_BYTES / 1e9:.0f} GB (10 GB with the CUDA build of "
                "torch); free some space, then start again."
            )

    def _install(
        self, python: Path, requirements: Sequence[str], lock: int, environment: dict[str, str]
    ) -> None:
        def tell(line: str) -> None:
            if found := _PIP_NEWS.match(line):
                self._progress.detail(_in_words(*found.groups()))

        with self._progress.step(f"Installing {len(requirements)} packages and their dependencies"):
            run_logged(
                [*_pip(python), "--constraint", self._constraints, *requirements],
                log=self._log,
                progress=self._progress,
                what="Installing Python packages",
                on_line=tell,
                environment=environment,
                hold=(lock,),
            )

    def _install_horovod(self, python: Path, lock: int, environment: dict[str, str]) -> Path:
        with_nccl = horovod_wheel.Ingredients.of(python).has_nccl
        for last_attempt in (False, True):
            wheel = horovod_wheel.provide(
                python,
                wheels=self._wheels,
                constraints=self._constraints,
                log=self._log,
                progress=self._progress,
                environment=environment,
                hold=(lock,),
                build=self._build,
            )
            command = [*_pip(python), "--no-deps", "--force-reinstall", wheel]
            self._run("Installing Horovod", command, lock, environment)
            with self._progress.step("Testing Horovod"):
                fault = horovod_wheel.fault_in(python, with_nccl=with_nccl)
            if fault is None:
                return wheel
            horovod_wheel.discard(wheel)
            if not last_attempt:
                self._progress.note(
                    f"The Horovod wheel is built again, because it does not load: {fault}"
                )
        raise PreparationError(
            f"Horovod was built but does not load: {fault} (the compiler's output is in "
            f"{self._log})."
        )

    def _run(
        self,
        what: str,
        command: Sequence[Argument],
        lock: int,
        environment: dict[str, str],
    ) -> None:
        with self._progress.step(what):
            run_logged(
                command,
                log=self._log,
                progress=self._progress,
                what=what,
                environment=environment,
                hold=(lock,),
            )


@contextlib.contextmanager
def _or_without_horovod() -> Iterator[None]:
    """Name the way without Horovod if it cannot be built."""
    try:
        yield
    except PreparationError as error:
        sentence = str(error).rstrip(".")
        raise PreparationError(
            f"{sentence}; without Horovod, jobs train by DDP: start with --without-horovod."
        ) from error


def is_whole(folder: Path) -> bool:
    """Return whether an environment is complete and its Python still exists."""
    return (folder / STAMP).exists() and os.access(folder / "bin/python", os.X_OK)


def _in_words(verb: str, thing: str, rest: str) -> str:
    if verb == "Installing collected":
        return "unpacking"
    name = re.split(r"[<>=!~;\[]|-\d", Path(thing).name)[0]
    size = re.search(r"\([\d.]+ [kMG]B\)", rest)
    return f"{name} {size[0]}" if size else name


def _pip(python: Path) -> list[Argument]:
    return [python, "-m", "pip", "install", "--no-input", "--no-warn-script-location"]


def clean_environment(temporary: Path) -> dict[str, str]:
    """Return variables for programs of a set-up, without those that users set for other work."""
    environment = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
    environment |= {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "LC_ALL": "C.UTF-8"}
    return environment | {"TMPDIR": str(temporary)}


def ended(signal_number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare, and record the place for the next start."""
    parser = argparse.ArgumentParser(prog="installers.prepare", description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--ready", type=Path, required=True)
    parser.add_argument("purpose", choices=sorted(_EXTRAS))
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, ended)
    progress = Progress()
    try:
        python = Preparation(_PROJECT, given.cache, given.purpose, progress).python()
        replace_file(given.ready, f"{python}\n")
    except PreparationError as reason:
        progress.note(f"ringmaster: {reason}")
        return 1
    except OSError as error:
        where = error.filename or given.cache
        progress.note(f"ringmaster: {where}: {error.strerror}; fix that, then start again.")
        return 1
    except KeyboardInterrupt:
        progress.note("\nringmaster: stopped; the next start continues from here.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
