"""A checkpoint that is exported stays, whatever its run does meanwhile."""

import errno
import os

import pytest

from backend.base.errors import BackendError
from backend.services.tools.tool_process import hold_checkpoint


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "epoch-0001.json").write_text("{}")
    (folder / "epoch-0001.pt").write_bytes(b"weights")
    return folder / "epoch-0001.pt"


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("has_links", [True, False])
def test_a_leased_checkpoint_and_its_record_survive_pruning_and_leave_nothing(
    checkpoint, target, monkeypatch, has_links
):
    def no_link(*_):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    if not has_links:
        monkeypatch.setattr(os, "link", no_link)
    with hold_checkpoint(checkpoint, target) as file:
        checkpoint.unlink()
        checkpoint.with_suffix(".json").unlink()
        assert file.read_bytes() == b"weights"
        assert file.with_suffix(".json").read_text() == "{}"
    assert not list(target.iterdir())


def test_the_error_of_a_missing_checkpoint_has_a_remedy(checkpoint, target):
    checkpoint.unlink()
    with pytest.raises(BackendError, match="has just replaced the checkpoint epoch-0001") as caught:
        hold_checkpoint(checkpoint, target).__enter__()
    assert caught.value.remedy == "Try it again."
    assert not list(target.iterdir())


def test_a_folder_without_room_is_named(checkpoint, target):
    with pytest.raises(BackendError, match=r"Nothing can be written into .*away"):
        hold_checkpoint(checkpoint, target / "away").__enter__()
