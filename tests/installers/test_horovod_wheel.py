"""The wheel in the cache is the one that was built, byte for byte, or it is built again."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from installers import horovod_wheel
from installers.console import Progress
from installers.horovod_wheel import Ingredients, Workshop, find_wheel
from tests.installers.small_project import put_horovod

CPU = Ingredients("cp311", "x86_64", "2.13.0+cpu", "5.0.11", cuda_toolkit=None, nccl=None)
CUDA = dataclasses.replace(CPU, torch="2.13.0+cu130", cuda_toolkit="13.0.3.0", nccl="2.29.7")


@pytest.fixture
def provide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Ask for the wheel; every build is counted in `provide.builds`."""

    def build(workshop: Workshop) -> Path:
        provide.builds += 1
        return put_horovod(workshop)

    def provide() -> Path:
        return horovod_wheel.provide_wheel(
            tmp_path / "bin/python",
            CPU,
            wheels=tmp_path / "wheels",
            constraints=tmp_path / "constraints.txt",
            log=tmp_path / "log",
            progress=Progress(provide.output),
            environment={},
            build=build,
            install=print,
        )

    provide.builds = 0
    provide.output = io.StringIO()
    return provide


def test_a_whole_wheel_is_not_built_twice(provide) -> None:
    assert provide() == provide()
    assert provide.builds == 1


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99], ids=["empty", "half", "last bytes missing"])
def test_a_truncated_wheel_is_noticed_and_built_again(provide, share: float) -> None:
    wheel = provide()
    content = wheel.read_bytes()
    wheel.write_bytes(content[: int(len(content) * share)])
    assert provide().read_bytes() != content[: int(len(content) * share)]
    assert provide.builds == 2
    assert "is damaged; it is built again" in provide.output.getvalue()


def test_a_flipped_bit_is_noticed(provide) -> None:
    wheel = provide()
    content = bytearray(wheel.read_bytes())
    content[len(content) // 3] ^= 1
    wheel.write_bytes(content)
    assert find_wheel(wheel.parent) is None


def test_a_wheel_without_its_checksum_is_noticed(provide) -> None:
    wheel = provide()
    (wheel.parent / "sha256").unlink()
    assert provide() == wheel
    assert provide.builds == 2


def test_the_rest_of_an_interrupted_build_is_cleared(provide, tmp_path: Path) -> None:
    remains = tmp_path / "wheels" / f"{CPU.folder_name}.build"
    (remains / "fresh").mkdir(parents=True)
    (remains / "horovod-0.28.1-py3-none-any.whl").touch()
    assert find_wheel(provide().parent)
    assert not remains.exists()


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Ingredients)])
def test_every_ingredient_is_in_the_folders_name(field: str) -> None:
    assert dataclasses.replace(CUDA, **{field: "another"}).folder_name != CUDA.folder_name


def test_a_cuda_torch_gets_nccl_and_the_others_do_not() -> None:
    assert CUDA.has_nccl
    assert not CPU.has_nccl


def test_the_environments_mpi_comes_before_the_systems(tmp_path: Path) -> None:
    workshop = Workshop(
        python=tmp_path / "env/bin/python",
        ingredients=CPU,
        folder=tmp_path / "build",
        constraints=tmp_path,
        log=tmp_path,
        progress=Progress(io.StringIO()),
        hold=(),
        environment={"PATH": "/usr/bin"},
        install=print,
    )
    folders = workshop.path().split(":")
    assert folders.index(str(tmp_path / "env/bin")) < folders.index("/usr/bin")


def test_only_inputs_that_change_the_wheel_change_the_recipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe_hash = horovod_wheel.recipe_hash()
    with monkeypatch.context() as patch:
        patch.setattr(horovod_wheel, "_PERCENT", "")
        assert horovod_wheel.recipe_hash() == recipe_hash
    for name in ("_PATCHES", "_NO_CUDA", "_RUNPATH", "_SOURCE", "_OPTIONS"):
        with monkeypatch.context() as patch:
            patch.setattr(horovod_wheel, name, "another")
            assert horovod_wheel.recipe_hash() != recipe_hash, name
    assert horovod_wheel.recipe_hash() == recipe_hash
