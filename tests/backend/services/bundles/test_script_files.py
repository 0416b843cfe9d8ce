"""A bundle puts the checkpoint of a script only where a script may write."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from backend.services.bundles.validation import _is_of_script


@pytest.mark.parametrize(
    ("path", "is_so"),
    [
        ("output/model-3.pt", True),
        ("output/checkpoints/epoch=1.ckpt", True),
        ("work/1/gpu01/script/model.pt", True),
        ("output", False),
        ("config.toml", False),
        ("attempts/1/exit.json", False),
        ("output/../config.toml", False),
        ("/etc/passwd", False),
        ("../other/output/model.pt", False),
        ("", False),
    ],
)
def test_a_checkpoint_of_a_script_is_below_its_own_folders(path: str, is_so: bool) -> None:
    assert _is_of_script(PurePosixPath(path)) is is_so
