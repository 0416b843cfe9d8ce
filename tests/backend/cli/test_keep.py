"""``job keep`` and ``job acts``: a checkpoint is kept, and the log shows who did what."""

import hashlib
import json

from backend.cli.main import run
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.checkpoint import Checkpoint
from tests.fakes import trained

NAME = "epoch-0001-step-000010"


def test_a_shell_command_keeps_a_checkpoint(tmp_path, capsys):
    root = tmp_path / "root"
    job_id = trained.job(root, "digits", [0.5] * 10)
    checkpoints = DataRoot(root).job(job_id).checkpoints
    (checkpoints / f"{NAME}.pt").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    record = Checkpoint(NAME, 1, 1, 10, 0, 7, digest, "", "2026-11-21T07:30:00Z")
    replace_json(checkpoints / f"{NAME}.json", record.to_dict())
    common = ["--data-root", str(root), "--catalogue", str(tmp_path / "here" / "c.sqlite")]

    def said(*words):
        assert run([*common, "job", *words], lambda *_: 0) == 0
        return capsys.readouterr().out

    def kept():
        return [one["is_kept"] for one in json.loads(said("checkpoints", "digits", "--json"))]

    assert kept() == [False]
    assert json.loads(said("keep", "digits", "--checkpoint", "latest", "--json"))["is_kept"]
    assert "kept" in said("checkpoints", "digits").split()
    assert kept() == [True]
    assert "is kept as long as" in said("keep", "digits", "--checkpoint", NAME, "--undo")
    acts = json.loads(said("acts", "digits", "--json"))
    assert [act["what"] for act in acts] == [
        f"No longer always kept: {NAME}",
        f"Always kept: {NAME}",
        "Created",
    ]
    assert f"Always kept: {NAME} (by " in said("acts", "digits")
