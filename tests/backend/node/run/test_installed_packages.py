"""What the guard of a failed rank writes of the packages that its exception is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.node.diagnosis.log_text import LogPart
from backend.node.run.installed_packages import packages_line

VERSIONS = {"pytorch_lightning": "2.0.9", "torch": "2.4.1", "pillow": "11.0"}
CODE = """\
import pytorch_lightning as pl
from own import Arguments
trainer = pl.Trainer(
    gpus=2,
)
arguments = Arguments(gpus=2)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an environment with packages, beside code that uses them."""
    for name, version in VERSIONS.items():
        information = tmp_path / f"lib/python3.11/site-packages/{name}-{version}.dist-info/METADATA"
        information.parent.mkdir(parents=True)
        information.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "train.py").write_text(CODE)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "line", "exception", "packages"),
    [
        ("train.py", 3, "TypeError: f() got an unexpected keyword argument 'gpus'",
         "pytorch_lightning 2.0.9 (called here)"),
        ("train.py", 6, "TypeError: f() got an unexpected keyword argument 'gpus'", ""),
        ("train.py", 3, "AttributeError: module 'PIL.Image' has no attribute 'ANTIALIAS'",
         "PIL 11.0"),
        ("lost.py", 3, "TypeError: f() got an unexpected keyword argument 'gpus'", ""),
        ("lib/python3.11/site-packages/torch/x.py", 3, "ValueError: 7", "torch 2.4.1"),
        ("train.py", 3, "step 8", ""),
    ],
)  # fmt: skip
def test_the_packages_of_an_exception_are_named_with_their_versions(
    folder: Path, file: str, line: int, exception: str, packages: str
) -> None:
    log = f'Traceback (most recent call last):\n  File "{folder / file}", line {line}, in f\n'
    text = packages_line((LogPart.from_text("x", log + exception),), str(folder / "bin/python"))
    assert text == (f"── packages of this error: {packages}\n" if packages else "")
