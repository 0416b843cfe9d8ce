"""``job keep`` and ``job acts``: a checkpoint is kept, and the log shows who did what."""

import hashlib
import json

import pytest

from backend.cli.main import run
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.checkpoint import Checkpoint
from backend.records.jobs.state import JobState
from tests.fakes import trained

NAME = "epoch-0001-step-000010"


def common_options(folder, **settings):
    """Return the options of a data root with the job digits, which has a checkpoint."""
    root = folder / "root"
    job_id = trained.job(root, "digits", [0.5] * 10, **settings)
    checkpoints = DataRoot(root).job(job_id).checkpoints
    (checkpoints / f"{NAME}.pt").write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    record = Checkpoint(NAME, 1, 1, 10, 0, 7, digest, "", "2026-11-21T07:30:00Z")
    replace_json(checkpoints / f"{NAME}.json", record.to_dict())
    return ["--data-root", str(root), "--catalogue", str(folder / "here" / "c.sqlite")]


def test_a_shell_command_keeps_a_checkpoint(tmp_path, capsys):
    common = common_options(tmp_path)

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


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("optimizer.lr=fast", "Learning rate must be a number"),
        ("lr=fast", "Learning rate must be a number"),
        ("nodes=many", "Nodes of Slurm must be a whole number"),
        ("name=digits", "Name cannot change when a job is resumed"),
        ("mode=max", "Mode cannot change when a job is resumed"),
    ],
)
def test_a_resume_takes_the_last_word_of_a_setting_as_a_sweep_does(
    tmp_path, capsys, assignment, message
):
    common = common_options(tmp_path, state=JobState.INTERRUPTED, epochs=9)
    assert run([*common, "job", "resume", "digits", "--set", assignment], lambda *_: 0) == 1
    assert message in capsys.readouterr().err
