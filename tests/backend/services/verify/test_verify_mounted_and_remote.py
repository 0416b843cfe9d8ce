"""A data root is checked and repaired over SFTP as where it is mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.records.library.item import PARTS as KINDS
from backend.records.library.item import Kind
from backend.services.verify import scan
from tests.backend.services.access_cases import DataSite
from tests.backend.services.verify.damages import DAMAGES, NAMES, Rig, checkpoint, contents
from tests.fakes import trained

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")
HERE = ("half_job", "temporary", "added_file", "queue_of_none", "cut_checkpoint", "flipped_bit")


def test_damages_are_found_by_hash_and_moved(
    place: DataSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "STALE_AFTER_S", 0.0)
    services = place.desktop()
    place.stock(services)
    pins = {kind.value: services.library.pin(kind, "tiny") for kind in KINDS}
    ids = [trained.job(place.root, name, [0.5] * 30, pins=pins) for name in ("a", "b", "c")]
    rig = Rig(tmp_path, ids)
    monkeypatch.setattr(Rig, "root", place.root)
    for name in NAMES:
        checkpoint(rig.one, name, name.encode() * 100)
    sound = services.verification.verify(hashes=True)
    assert sound.findings == ()
    assert sound.hashed_bytes
    names = {name.replace("_", " ") for name in HERE}
    for damage in DAMAGES:
        if damage.name in names:
            names.remove(damage.name)
            damage.make(rig)
    assert names == set()
    before = contents(place.root)
    found = services.verification.verify(hashes=True)
    assert contents(place.root) == before
    assert len([one for one in found.findings if one.repair]) == len(HERE)
    assert any("is not mounted" in one for one in found.not_checked) is not place.is_mounted
    done = services.verification.repair(found.findings, hashes=True)
    assert (len(done.repaired_findings), done.remaining_findings) == (len(HERE), ())
    after = contents(place.root)
    assert sorted(before.values()) == sorted(after.values())
    assert (place.root / "models" / "tiny" / "v1" / "src" / "bks_model.py").is_file()
    assert services.verification.verify(hashes=True).findings == ()
    assert services.library.list(Kind.MODEL)
