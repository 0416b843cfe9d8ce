"""Programs that behave badly while they run: one sentence each, nothing lost, no process left."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from backend.records.jobs.state import JobState
from backend.services.context.container import Services
from tests.backend.training.test_script_rank import ABORTS
from tests.integration.conftest import leftovers
from tests.integration.test_script_life import job_of, log_of, run_job

WROTE_NOTHING = (
    "wrote nothing: no figure, no checkpoint and no file in its output or working folder."
)
NO_CURVE = "No curve was found: no file of the script has rows with a step or an epoch"
MEET = """
import torch, torch.distributed as dist, os
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}",
                        rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
total = torch.ones(1)
dist.all_reduce(total)
print('{{"step": 1, "sum": %d}}' % total.item())
dist.destroy_process_group()  # gloo aborts in a process that ends after its peer without it
"""
DEAF = """
import os, signal, time
for one in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(one, signal.SIG_IGN)
print('{"step": 1, "loss": 1}', flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", WROTE_NOTHING),
        ("print('done')", WROTE_NOTHING),
        ("""print('{"step": 1, "loss": 2}')""", ""),
        ("import os; open(os.environ['RINGMASTER_OUTPUT'] + '/words.txt', 'w')", NO_CURVE),
        ("import os; open('model.pt', 'w').write('1')", NO_CURVE),
        ("open('report.txt', 'w').write('1')", NO_CURVE),
        ("import os; open('/dev/null', 'w').write('1')", WROTE_NOTHING),
    ],
)
def test_a_program_that_wrote_nothing_finishes_with_a_word_about_it(
    services: Services, tmp_path: Path, code: str, message: str
) -> None:
    view = run_job(services, job_of(services, tmp_path, code, arguments=[], processes=1))
    assert (view.state, view.error) == (JobState.FINISHED, None), log_of(services, view)
    assert message in view.status.message if message else not view.status.message


def test_a_program_that_hangs_is_ended_after_the_stall_limit(
    services: Services, tmp_path: Path
) -> None:
    code = "import time\ntime.sleep(10000)\n"
    view = job_of(services, tmp_path, code, arguments=[], stall_limit_s=10)
    view = run_job(services, view)
    assert view.state is JobState.ERROR
    assert view.error is not None
    assert "made no progress for 10 s while the script ran" in view.error.message
    assert leftovers(view) == []


def test_undecodable_bytes_are_kept_and_shown(services: Services, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "sys.stdout.buffer.write(os.urandom(300_000) + b'\\0\\x1b[2J\\r\\n')\n"
        """print('{"step": 1, "loss": 2}')\n"""
        "sys.stdout.buffer.write(b'\\xff' * 100)\n"
    )
    view = run_job(services, job_of(services, tmp_path, code, arguments=[], processes=1))
    assert view.state is JobState.FINISHED
    assert view.status.metrics == {"loss": 2.0}
    log = services.data_root.job(view.id).rank_log(0).read_bytes()
    assert len(log) > 300_000
    assert log.endswith(b"\xff" * 100)


def test_a_program_that_changes_its_own_files_changes_a_copy(
    services: Services, tmp_path: Path
) -> None:
    code = (
        "import os, pathlib, shutil\n"
        "pathlib.Path('train.py').write_text('import not_there')\n"
        "for one in pathlib.Path('.').iterdir():\n"
        "    one.unlink()\n"
        """print('{"step": 1, "loss": 2}')\n"""
    )
    view = job_of(services, tmp_path, code, arguments=[], processes=1)
    source = services.data_root.path / "scripts/mine/v1/src/train.py"
    for _ in range(2):
        view = run_job(services, view)
        assert view.state is JobState.FINISHED, log_of(services, view)
        assert source.read_text() == code
        view = services.jobs.create({**view.config.to_dict(), "name": "again"})


def test_a_program_that_continues_after_a_stop_is_ended(services: Services, tmp_path: Path) -> None:
    view = job_of(services, tmp_path, DEAF, arguments=[])
    services.jobs.lifecycle.start(view.id)
    services.jobs.queries.wait(view.id, is_finished=lambda v: v.step >= 1 or v.state.is_over)
    services.jobs.lifecycle.stop(view.id)
    view = services.jobs.queries.wait(view.id)
    assert view.state is JobState.INTERRUPTED, (view.error, view.status.message)
    assert leftovers(view) == []


def test_a_given_port_is_used_and_a_taken_one_is_named(services: Services, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        view = job_of(services, tmp_path, MEET.format(port=port), arguments=[])
        view = run_job(services, view)
        assert view.state is JobState.ERROR
        assert view.error is not None
        assert "port that the program needs is in use" in view.error.message
        assert str(port) in view.error.traceback
        assert leftovers(view) == []
    view = run_job(services, services.jobs.create({**view.config.to_dict(), "name": "again"}))
    assert (view.state, view.status.metrics) == (JobState.FINISHED, {"sum": 2.0}), view.error


def test_a_program_whose_end_aborts_after_its_work_has_finished(
    services: Services, tmp_path: Path
) -> None:
    code = ABORTS + """print('{"step": 1, "loss": 2}')"""
    view = run_job(services, job_of(services, tmp_path, code, arguments=[]))
    assert (view.state, view.error) == (JobState.FINISHED, None), log_of(services, view)
    assert view.status.metrics == {"loss": 2.0}
    assert "aborted after the script's last line" in view.status.message
