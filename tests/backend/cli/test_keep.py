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

    def output(*args):
        assert run([*common, "job", *args], lambda *_: 0) == 0
        return capsys.readouterr().out

    def kept_flags():
        return [
            record["is_kept"] for record in json.loads(output("checkpoints", "digits", "--json"))
        ]

    assert kept_flags() == [False]
    assert json.loads(output("keep", "digits", "--checkpoint", "latest", "--json"))["is_kept"]
    assert "kept" in output("checkpoints", "digits").split()
    assert kept_flags() == [True]
    assert "is kept as long as" in output("keep", "digits", "--checkpoint", NAME, "--undo")
    acts = json.loads(output("acts", "digits", "--json"))
    assert [act["what"] for act in acts] == [
        f"No longer always kept: {NAME}",
        f"Always kept: {NAME}",
        "Created",
    ]
    assert f"Always kept: {NAME} (by " in output("acts", "digits")
