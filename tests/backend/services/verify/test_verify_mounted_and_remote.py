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
DAMAGE_NAMES = (
    "half_job",
    "temporary",
    "added_file",
    "queue_of_none",
    "cut_checkpoint",
    "flipped_bit",
)


def test_damages_are_found_by_hash_and_moved(
    site: DataSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "STALE_AFTER_S", 0.0)
    services = site.desktop()
    site.stock(services)
    pins = {kind.value: services.library.pin(kind, "tiny") for kind in KINDS}
    ids = [trained.job(site.root, name, [0.5] * 30, pins=pins) for name in ("a", "b", "c")]
    rig = Rig(tmp_path, ids)
    monkeypatch.setattr(Rig, "root", site.root)
    for name in NAMES:
        checkpoint(rig.first_job, name, name.encode() * 100)
    sound = services.verification.verify(hashes=True)
    assert sound.findings == ()
    assert sound.hashed_bytes
    names = {name.replace("_", " ") for name in DAMAGE_NAMES}
    for damage in DAMAGES:
        if damage.name in names:
            names.remove(damage.name)
            damage.make(rig)
    assert names == set()
    old_contents = contents(site.root)
    verification = services.verification.verify(hashes=True)
    assert contents(site.root) == old_contents
    assert len([f for f in verification.findings if f.repair]) == len(DAMAGE_NAMES)
    assert any("is not mounted" in f for f in verification.not_checked) is not site.is_mounted
    done = services.verification.repair(verification.findings, hashes=True)
    assert (len(done.repaired_findings), done.remaining_findings) == (len(DAMAGE_NAMES), ())
    new_contents = contents(site.root)
    assert sorted(old_contents.values()) == sorted(new_contents.values())
    assert (site.root / "models" / "tiny" / "v1" / "src" / "bks_model.py").is_file()
    assert services.verification.verify(hashes=True).findings == ()
    assert services.library.list(Kind.MODEL)
