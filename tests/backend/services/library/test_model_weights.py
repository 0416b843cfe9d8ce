"""Weights beside a model: its new jobs begin with them, on a mounted data root and over SFTP."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest
import torch

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.records.base.atomic_files import read_json
from backend.records.library.item import Kind
from backend.services.context.container import Services
from tests.backend.services.access_cases import Beat, DataSite, FakeHead, on_node

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")
_saved = io.BytesIO()
torch.save({"layer.weight": torch.ones(2, 4)}, _saved)
CONTENT = _saved.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ResNet best.pt"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def services(site: DataSite, beat: Beat) -> Services:
    services = site.desktop()
    site.stock(services)
    beat(site)
    return services


def version(site: DataSite) -> Path:
    return site.root / "models" / "tiny" / "v1"


def test_a_new_job_of_the_model_begins_with_its_weights_and_says_so(
    site: DataSite, services: Services, file: Path
) -> None:
    old_job = services.jobs.create(on_node(name="before"))
    item = services.library.add_weights("tiny", file)
    second = site.desktop()
    assert (version(site) / "weights.pt").read_bytes() == CONTENT
    assert (version(site) / "weights.pt").stat().st_mode & 0o777 == 0o644
    assert item.details["weights"] == {
        "name": "weights.pt",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "bytes": len(CONTENT),
        "source": "ResNet best.pt",
    }
    assert second.library.show(Kind.MODEL, "tiny") == item, "its content and hash are as before"
    second.library.verify(Kind.MODEL, second.library.pin(Kind.MODEL, "tiny"), thorough=True)
    leftover_names = [
        path.name for path in version(site).parents[1].iterdir() if path.name != "tiny"
    ]
    assert leftover_names == [], "nothing is left of the copying"

    check = second.jobs.check(on_node())
    assert check.errors == ()
    (message,) = [f.message for f in check.findings if f.check == "start_from"]
    assert message.startswith("It begins with the weights of tiny@1")
    view = second.jobs.create(on_node(name="fine"))
    assert view.config.start_from == "tiny@1/weights.pt"
    head = FakeHead()
    head.instead_of(second)
    second.jobs.lifecycle.start(view.id)
    launch = read_json(site.data.job(view.id).launch)
    assert launch["start_from"] == str(version(site) / "weights.pt")

    # What was made without them stays without them, and so does whatever repeats it.
    second.jobs.lifecycle.start(old_job.id)
    assert read_json(site.data.job(old_job.id).launch)["start_from"] == ""
    assert second.jobs.clone(old_job.id)["start_from"] == "nothing"
    assert second.jobs.clone(view.id)["start_from"] == "tiny@1/weights.pt"


def test_a_job_that_starts_from_nothing_ignores_the_weights(services: Services, file: Path) -> None:
    services.library.add_weights("tiny@1", file)
    view = services.jobs.create(on_node(start_from="nothing"))
    head = FakeHead()
    head.instead_of(services)
    services.jobs.lifecycle.start(view.id)
    assert read_json(services.data_root.job(view.id).launch)["start_from"] == ""


@pytest.mark.slow
def test_weights_placed_by_hand_are_found(site: DataSite, services: Services) -> None:
    (version(site) / "weights.safetensors").write_bytes(CONTENT)
    view = services.jobs.create(on_node())
    assert view.config.start_from == "tiny@1/weights.safetensors"
    check = services.jobs.check(on_node(start_from="tiny/weights.safetensors"))
    assert check.errors == ()
    absent = services.jobs.check(on_node(start_from="tiny/weights.pt"))
    assert [error.path for error in absent.errors] == ["start_from"]


def test_changed_weights_start_nothing(site: DataSite, services: Services, file: Path) -> None:
    services.library.add_weights("tiny", file)
    view = services.jobs.create(on_node())
    (version(site) / "weights.pt").write_bytes(CONTENT + b"!")
    with pytest.raises(BackendError, match=r"tiny@1/weights\.pt were changed after"):
        services.jobs.lifecycle.start(view.id)
    assert services.jobs.queries.show(view.id).run == 0


@pytest.mark.slow
def test_a_model_keeps_its_weights(site: DataSite, services: Services, file: Path) -> None:
    services.library.add_weights("tiny", file)
    other_file = file.with_name("other.safetensors")
    other_file.write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    with pytest.raises(BackendError, match="has weights already") as refusal:
        services.library.add_weights("tiny", other_file)
    assert "new version" in refusal.value.remedy
    assert sorted(path.name for path in version(site).glob("weights*")) == ["weights.pt"]
    assert (version(site) / "weights.pt").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pt", b"hello", "“a.pt” contains no weights"),
        ("a.pt", b"", "“a.pt” contains no weights"),
        ("a.safetensors", b"PK\x03\x04 whatever", "“a.safetensors” contains no weights"),
        ("a.h5", b"PK\x03\x04", "“a.h5” is not a weights file"),
        ("gone.pt", None, "is not a file"),
    ],
)
def test_a_file_without_weights_is_refused_in_one_sentence(
    remote_site: DataSite, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    services = remote_site.desktop()
    remote_site.stock(services)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BackendError, match=message) as refusal:
        services.library.add_weights("tiny", tmp_path / name)
    assert refusal.value.remedy
    assert not list(version(remote_site).glob("*weights*"))


def test_cancelling_leaves_the_model_unchanged(
    site: DataSite, services: Services, file: Path
) -> None:
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        services.library.add_weights("tiny", file, progress)
    assert not list(version(site).glob("*weights*"))
    assert [path.name for path in version(site).parents[1].iterdir()] == ["tiny"]
