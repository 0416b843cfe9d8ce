"""Make the environment that Ringmaster runs in, or find it complete and do nothing.

An environment is a folder in the user's cache, named after all of its inputs: clones of the project
share it, and a changed version makes another one next to it.  A complete environment is never
changed, because jobs outlive the desktop and may be running from it.  The last file written is
`ringmaster.json`; a folder without it is incomplete and is made again, from uv's cache and the
cached Horovod wheel.

uv installs the packages, as hard links into its cache: 15 s in place of 42 s with pip on two cores,
and an environment that differs in one package costs a second. Horovod has to be compiled; with
``--horovod-later`` that happens in the background, for a second environment next to one without it.
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
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from backend.provisioning.pip_settings import pip_options
from installers import horovod_wheel, system_packages
from installers.console import Argument, PreparationError, Progress, run_logged
from installers.files import locked, remove_folder, replace_file, scratch_folder

STAMP = "ringmaster.json"
_PACKAGES_STAMP = "packages-are-installed"
_PROJECT = Path(__file__).resolve().parent.parent
_NEEDED_BYTES = 3_000_000_000
_EXTRAS = {"headless": ("node",), "window": ("node",), "test": ("node", "dev")}
_USER_VARIABLES = re.compile(
    r"(PYTHON(PATH|HOME)|PIP_(TARGET|PREFIX|CONSTRAINT)|LD_LIBRARY_PATH|LIBRARY_PATH|CC|CXX"
    r"|C(PLUS_INCLUDE_)?PATH|C(XX|PP)?FLAGS|LDFLAGS|(HOROVOD|CMAKE)_.*|CUDA.*)$"
)
_UV_LINE = re.compile(r"^\s*(Downloading|Building|Prepared|Installed)\s+(\S+)(.*)$")


@dataclass(frozen=True)
class Recipe:
    """All inputs of an environment. ``horovod`` is "" if it is left out."""

    python: str
    machine: str
    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    horovod: str

    @classmethod
    def read(cls, project: Path, purpose: str, *, has_horovod: bool = True) -> Recipe:
        """Read the inputs from a checkout, for this Python."""
        table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
        extras = table["optional-dependencies"]
        requirements = table["dependencies"] + [
            r for name in _EXTRAS[purpose] for r in extras[name]
        ]
        lines = (project / "installers/constraints.txt").read_text("utf-8").splitlines()
        return cls(
            python="{}.{}".format(*sys.version_info[:2]),
            machine=platform.machine(),
            requirements=tuple(sorted(set(requirements))),
            constraints=tuple(s for s in map(str.strip, lines) if s and not s.startswith("#")),
            horovod=horovod_wheel.recipe_hash() if has_horovod else "",
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
        has_horovod: bool = True,
    ) -> None:
        self._build = build
        self._constraints = project / "installers/constraints.txt"
        self._purpose = purpose
        self._progress = progress
        self._recipe = Recipe.read(project, purpose, has_horovod=has_horovod)
        self._superset = Recipe.read(project, "test", has_horovod=has_horovod)
        self._tools = cache / "tools"
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
        ready_folders = [
            f for f in map(self._folder, (self._recipe, self._superset)) if is_complete(f)
        ]
        requirements = system_packages.LIBRARIES[self._purpose]
        system_packages.install_missing(requirements, self._log, self._progress)
        if horovod and not ready_folders and not any(self._wheels.glob(f"*-{horovod}")):
            with _suggesting_no_horovod():
                system_packages.install_missing(system_packages.BUILD, self._log, self._progress)
        if self._purpose != "headless":
            system_packages.recommend_fonts(self._log, self._progress)
        if ready_folders:
            return ready_folders[0] / "bin/python"
        folder = self._folder(self._recipe)
        lock = self._environments / f"{folder.name}.lock"
        with locked(lock, "the environment", self._progress) as lock_descriptor:
            if not is_complete(folder):
                self._make_environment(folder, lock_descriptor)
        return folder / "bin/python"

    def needs_a_build(self) -> bool:
        """Return whether Horovod has to be compiled for this environment."""
        is_made = any(
            is_complete(self._folder(environment_recipe))
            for environment_recipe in (self._recipe, self._superset)
        )
        return not is_made and not any(self._wheels.glob(f"*-{self._recipe.horovod}"))

    def is_being_made(self) -> bool:
        """Return whether another start makes this environment now."""
        lock = self._environments / f"{self._recipe.name}.lock"
        try:
            with locked(lock, "the environment", None):
                return False
        except BlockingIOError:
            return True

    def _folder(self, recipe: Recipe) -> Path:
        return self._environments / recipe.name

    def _make_environment(self, folder: Path, lock: int) -> None:
        self._progress.note(f"Setting up {folder}, once.")
        python = folder / "bin/python"
        # A build needs 2 GB of temporary space; a /tmp in memory often has less.
        with scratch_folder(self._environments / f"{folder.name}.tmp") as temporary:
            environment = clean_environment(temporary)
            if not ((folder / _PACKAGES_STAMP).exists() and os.access(python, os.X_OK)):
                if folder.exists():
                    self._progress.note("An earlier set-up did not finish; it is started again.")
                    remove_folder(folder)
                self._remove_incomplete()
                self._check_space()
                uv = self._provide_uv(lock, environment)
                venv = (uv, "venv", "--quiet", "--python", sys.executable, folder)
                self._run("Making the environment", venv, lock, environment)
                self._install(python, self._recipe.requirements, lock, environment)
                (folder / _PACKAGES_STAMP).touch()
            stamp = {"python": str(python), "requirements": self._recipe.requirements}
            if self._recipe.horovod:
                ingredients = horovod_wheel.Ingredients.read_from(python)
                stamp |= asdict(ingredients)
                with _suggesting_no_horovod():
                    wheel = self._install_horovod(python, ingredients, lock, environment)
                stamp["horovod_wheel"] = str(wheel)
        replace_file(folder / STAMP, json.dumps(stamp, indent=2) + "\n")
        variants = (
            replace(self._recipe, horovod=horovod) for horovod in ("", horovod_wheel.recipe_hash())
        )
        own_folders = {self._folder(variant) for variant in variants}
        if any(
            is_complete(other_folder)
            for other_folder in self._environments.iterdir()
            if other_folder not in own_folders
        ):
            self._progress.note(
                f"Environments of other versions are kept in {self._environments}; those that no "
                "job runs from can be deleted."
            )

    def _remove_incomplete(self) -> None:
        """Free the gigabytes of other versions' set-ups that did not finish."""
        for lock in self._environments.glob("*.lock"):
            folder = lock.with_suffix("")
            if folder.exists() and not (folder / STAMP).exists():
                with contextlib.suppress(BlockingIOError), locked(lock, "it", None):
                    remove_folder(folder)

    def _check_space(self) -> None:
        free_bytes = shutil.disk_usage(self._environments).free
        if free_bytes < _NEEDED_BYTES:
            raise PreparationError(
                f"The disk that holds {self._environments} has {free_bytes / 1e9:.1f} GB free "
                "and an "
                f"environment needs {_NEEDED_BYTES / 1e9:.0f} GB (10 GB with the CUDA build of "
                "torch); free some space, then start again."
            )

    def _provide_uv(self, lock: int, environment: dict[str, str]) -> Path:
        """Return uv, which is installed once, by pip, for all environments."""
        pinned = next(line for line in self._recipe.constraints if line.startswith("uv=="))
        home = self._tools / pinned.replace("==", "-")
        uv = home / "bin/uv"
        self._tools.mkdir(exist_ok=True)
        with locked(self._tools / "uv.lock", "uv", self._progress):
            if not (os.access(uv, os.X_OK) and os.access(home / "bin/python", os.X_OK)):
                shutil.rmtree(home, ignore_errors=True)
                venv = (sys.executable, "-m", "venv", home)
                self._run("Preparing the set-up", venv, lock, environment)
                pip = (home / "bin/python", "-m", "pip", "install", "--no-input", pinned)
                self._run("Fetching uv", pip, lock, environment)
        return uv

    def _install_by_uv(
        self, python: Path, arguments: Sequence[Argument], lock: int, environment: dict[str, str]
    ) -> None:
        """Install by uv, from where pip is configured to take packages."""
        uv = self._provide_uv(lock, environment)
        completed = subprocess.run(
            [uv.with_name("python"), "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        options, variables = pip_options(completed.stdout)

        def show_line(line: str) -> None:
            if match := _UV_LINE.match(line):
                verb, name, suffix = match.groups()
                self._progress.detail("unpacking" if verb == "Prepared" else f"{name}{suffix}")

        command = [uv, "pip", "install", "--no-config", "--python", python, *options, *arguments]
        run_logged(
            command,
            log=self._log,
            progress=self._progress,
            label="Installing Python packages",
            on_line=show_line,
            environment={**environment, **variables},
            hold=(lock,),
        )

    def _install(
        self, python: Path, requirements: Sequence[str], lock: int, environment: dict[str, str]
    ) -> None:
        with self._progress.step(f"Installing {len(requirements)} packages and their dependencies"):
            constraints: tuple[Argument, ...] = ("--constraint", self._constraints)
            self._install_by_uv(python, (*constraints, *requirements), lock, environment)

    def _install_horovod(
        self,
        python: Path,
        ingredients: horovod_wheel.Ingredients,
        lock: int,
        environment: dict[str, str],
    ) -> Path:
        def install(arguments: Sequence[Argument]) -> None:
            self._install_by_uv(python, arguments, lock, environment)

        for last_attempt in (False, True):
            wheel = horovod_wheel.provide_wheel(
                python,
                ingredients,
                wheels=self._wheels,
                constraints=self._constraints,
                log=self._log,
                progress=self._progress,
                environment=environment,
                hold=(lock,),
                build=self._build,
                install=install,
            )
            with self._progress.step("Installing Horovod"):
                install(("--no-deps", "--reinstall", wheel))
            with self._progress.step("Testing Horovod"):
                load_error = horovod_wheel.find_load_error(python, with_nccl=ingredients.has_nccl)
            if load_error is None:
                return wheel
            horovod_wheel.remove_wheel(wheel)
            if not last_attempt:
                self._progress.note(
                    f"The Horovod wheel is built again, because it does not load: {load_error}"
                )
        raise PreparationError(
            f"Horovod was built but does not load: {load_error} (the compiler's output is in "
            f"{self._log})."
        )

    def _run(
        self,
        label: str,
        command: Sequence[Argument],
        lock: int,
        environment: dict[str, str],
    ) -> None:
        with self._progress.step(label):
            run_logged(
                command,
                log=self._log,
                progress=self._progress,
                label=label,
                environment=environment,
                hold=(lock,),
            )


@contextlib.contextmanager
def _suggesting_no_horovod() -> Iterator[None]:
    """Name the way without Horovod if it cannot be built."""
    try:
        yield
    except PreparationError as error:
        message = str(error).rstrip(".")
        raise PreparationError(
            f"{message}; without Horovod, jobs train by DDP: start with --without-horovod."
        ) from error


def is_complete(folder: Path) -> bool:
    """Return whether an environment is complete and its Python still exists."""
    return (folder / STAMP).exists() and os.access(folder / "bin/python", os.X_OK)


def clean_environment(temporary: Path) -> dict[str, str]:
    """Return variables for programs of a set-up, without those that users set for other work."""
    environment = {
        name: value for name, value in os.environ.items() if not _USER_VARIABLES.match(name)
    }
    environment |= {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "LC_ALL": "C.UTF-8"}
    return environment | {"TMPDIR": str(temporary)}


def interrupt(signal_number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare, and record the place for the next start."""
    parser = argparse.ArgumentParser(prog="installers.prepare", description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--ready", type=Path, required=True)
    parser.add_argument("--horovod", choices=("now", "later", "never"), default="now")
    parser.add_argument("purpose", choices=sorted(_EXTRAS))
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, interrupt)
    progress = Progress()
    ready = options.ready
    try:
        full_preparation = Preparation(_PROJECT, options.cache, options.purpose, progress)
        is_later = options.horovod == "later" and full_preparation.needs_a_build()
        preparation = full_preparation
        if is_later or options.horovod == "never":
            preparation = Preparation(
                _PROJECT, options.cache, options.purpose, progress, has_horovod=False
            )
        if is_later:
            ready = ready.with_name(f"{ready.name}-without-horovod")
        replace_file(ready, f"{preparation.python()}\n")
        if is_later:
            _build_in_background(full_preparation, options, progress)
    except PreparationError as reason:
        progress.note(f"ringmaster: {reason}")
        return 1
    except OSError as error:
        path = error.filename or options.cache
        progress.note(f"ringmaster: {path}: {error.strerror}; fix that, then start again.")
        return 1
    except KeyboardInterrupt:
        progress.note("\nringmaster: stopped; the next start continues from here.")
        return 130
    return 0


def _build_in_background(
    full_preparation: Preparation, options: argparse.Namespace, progress: Progress
) -> None:
    """Start a set-up with Horovod that outlives this one, unless one is at work."""
    log = options.cache / "horovod.log"
    if not full_preparation.is_being_made():
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        if lines and lines[-1].startswith("ringmaster: "):
            progress.note(f"Horovod was not built: {lines[-1].removeprefix('ringmaster: ')}")
        command = ["nice", sys.executable, "-P", "-m", "installers.prepare", options.purpose]
        command += ["--cache", options.cache, "--ready", options.ready]
        with log.open("wb") as output:
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    progress.note(
        "Horovod is being built in the background, which takes some minutes; until then, jobs on "
        f"this computer train by DDP. Its progress is in {log}."
    )


if __name__ == "__main__":
    sys.exit(main())
