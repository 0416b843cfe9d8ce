from __future__ import annotations

import pytest

from backend.records.base.remote_root import RemoteRoot


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("ssh://gpu1/lab/ring", RemoteRoot("gpu1", "/lab/ring")),
        ("ssh://lab@gpu1:2222/lab/ring", RemoteRoot("gpu1", "/lab/ring", "lab", 2222)),
        ("ssh://lab@[fd00::1]:2222/lab", RemoteRoot("fd00::1", "/lab", "lab", 2222)),
        ("ssh://gpu1/lab/my%20ring%25", RemoteRoot("gpu1", "/lab/my ring%")),
        ("ssh://Gpu1/", RemoteRoot("Gpu1", "/")),
    ],
)
def test_an_address_is_read_and_written(text: str, root: RemoteRoot) -> None:
    assert RemoteRoot.parse(text) == root
    assert str(root) == text


def test_one_root_has_one_spelling() -> None:
    assert str(RemoteRoot.parse("ssh://gpu1//lab/../lab/ring/")) == "ssh://gpu1/lab/ring"


@pytest.mark.parametrize(
    "text",
    [
        "ssh://gpu1",
        "ssh:///lab",
        "ssh://gpu1:0/lab",
        "ssh://gpu1:65536/lab",
        "ssh://gpu1:x/lab",
        "ssh://lab:secret@gpu1/lab",
        "ssh://a b/lab",
        "sftp://gpu1/lab",
        "gpu1:/lab",
    ],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        RemoteRoot.parse(text)


def test_a_remote_root_has_a_label_and_a_url_for_file_managers() -> None:
    root = RemoteRoot("gpu1", "/lab/my ring", "lab", 2222)
    assert root.label == "gpu1:/lab/my ring"
    assert root.url("/lab/my ring/jobs") == "sftp://lab@gpu1:2222/lab/my%20ring/jobs"
