"""A scheduler that only the tests have: two table entries are all that the program knows of it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from backend.base.errors import BackendError
from backend.node.system.start_supervisor import CODE_ROOT
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.flat_settings import effective_settings
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.launch import launch_of
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.schedulers import SCHEDULERS
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity, RunStatus
from backend.records.library.item import Kind
from backend.records.nodes.entry import NodeAddress, NodeEntry
from backend.services.context.container import Services
from backend.services.nodes.launchers import CLUSTERS
from tests.fakes.at_once import AtOnceCluster
from tests.fakes.at_once_records import KEY, SCHEDULER
from tests.integration.conftest import WORKING, leftovers
from tests.integration.tiny import ALONE, ENDLESS, raw_job
from tests.waiting import wait_for

RAW = {
    **{key: value for key, value in raw_job(1).items() if key != "placement"},
    **ENDLESS,
    **ALONE,
    KEY: {"cluster": THIS_COMPUTER},
}


@pytest.fixture(autouse=True)
def scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULERS, KEY, SCHEDULER)
    monkeypatch.setitem(CLUSTERS, KEY, lambda login_node, poll_s: AtOnceCluster(login_node))


def state(services: Services, job_id: str) -> JobState:
    return services.jobs.queries.show(job_id).state


def test_a_job_of_a_third_scheduler_trains_stops_resumes_and_is_killed(services: Services) -> None:
    preflight = services.preflight.run(services.jobs.create(RAW).config)
    assert [(f.check, f.message) for f in preflight.findings] == [
        ("At Once", "At Once accepts the job.")
    ]
    job_id = services.jobs.create_and_start(RAW).id
    wait_for(lambda: state(services, job_id) in WORKING, "the first steps")
    launch = launch_of(services.data_root.job(job_id).launch, 1)
    assert launch is not None
    assert [plan.node for plan in launch.ranks] == [socket.gethostname()]
    view = services.jobs.queries.show(job_id)
    assert view.nodes == (socket.gethostname(),)
    assert effective_settings(view)["placement"] == f"{socket.gethostname()} × 1"

    services.jobs.lifecycle.stop(job_id)
    view = services.jobs.queries.wait(job_id)
    assert (view.state, view.run) == (JobState.INTERRUPTED, 1)
    assert services.queries.checkpoints(job_id)

    services.jobs.lifecycle.resume(job_id, changes={"batch_size": 16})
    actions = [entry.action for entry in services.jobs.audit_entries(job_id)]
    assert any(a.startswith("Resumed") and a.endswith(" on this computer") for a in actions)
    wait_for(lambda: state(services, job_id) in WORKING, "the steps of the second run")
    services.jobs.lifecycle.stop(job_id)
    view = services.jobs.lifecycle.kill(job_id)
    assert view.state.is_over
    assert leftovers(view) == []


def test_a_job_that_waits_for_a_third_scheduler_leaves_its_queue(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AtOnceCluster, "is_held", True)
    job_id = services.jobs.create_and_start(RAW).id
    view = services.jobs.queries.show(job_id)
    assert (view.state, view.status.message) == (JobState.QUEUED, "Held by the tests.")
    assert view.nodes == (THIS_COMPUTER,)
    assert "placement" not in effective_settings(view)
    assert services.queue.dequeue(job_id).state is JobState.CREATED
    with pytest.raises(BackendError) as refusal:
        services.queue.enqueue(job_id)
    assert refusal.value.remedy == "Start the job: At Once begins it when its turn comes."


def test_the_packages_of_a_script_are_installed_from_the_login_node(
    services: Services, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The nodes have no names before the job begins."""
    folder = tmp_path / "script"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "requirements.txt").write_text("einops\n")
    services.library.import_item(Kind.SCRIPT, folder, "script")
    asked_nodes = []

    def provide_script(names: tuple[str, ...], *_: object) -> str:
        asked_nodes.append(names)
        raise BackendError("No index answers.")

    provisioning = SimpleNamespace(provide_script=provide_script)
    monkeypatch.setattr(services.nodes.heads, "provisioning", provisioning)
    script = {"name": "script", "script": "script", "entry": "train.py", "python": "requirements"}
    with pytest.raises(BackendError, match="No index answers"):
        services.jobs.create_and_start({**script, KEY: {"cluster": THIS_COMPUTER}})
    assert asked_nodes == [(THIS_COMPUTER,)]


def test_a_job_whose_submission_cannot_be_read_stays_in_the_queue_and_an_error_says_so(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AtOnceCluster, "is_held", True)
    job_id = services.jobs.create_and_start(RAW).id
    services.data_root.job(job_id).attempt(1).submission(KEY).write_text("{")
    with pytest.raises(BackendError, match="no readable record of its submission to At Once"):
        services.queue.dequeue(job_id)
    assert services.data_root.job(job_id).newest_run() == 1


def test_a_live_job_whose_node_no_one_added_is_whole(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AtOnceCluster, "is_held", True)
    job_id = services.jobs.create_and_start(RAW).id
    folder = services.data_root.job(job_id)
    supervisor = ProcessIdentity("compute-7", "another-boot", 4711, 1)
    replace_json(folder.attempt(1).supervisor, supervisor.to_dict())
    replace_json(folder.status, RunStatus(JobState.TRAINING, run=1).to_dict())
    assert [f.message for f in services.verification.verify().findings] == []


def test_a_replay_runs_in_the_cluster_or_where_the_user_chooses(services: Services) -> None:
    job_id = services.jobs.create(RAW).id
    draft = services.replays.draft(job_id)
    assert (draft[KEY], "placement" in draft) == ({"cluster": THIS_COMPUTER}, False)
    draft = services.replays.draft(job_id, (Placement(THIS_COMPUTER, 1),))
    assert (KEY in draft, draft["placement"]) == (False, [{"node": THIS_COMPUTER, "processes": 1}])


def test_a_job_file_and_the_entry_of_a_login_node_keep_the_name_of_a_third_scheduler() -> None:
    config = parse_job(RAW).config
    assert config is not None
    assert config.to_dict()[KEY] == {"cluster": THIS_COMPUTER}
    assert parse_job(config.to_dict()).config == config
    errors = parse_job({**RAW, KEY: {"cluster": "", "nodes": 2}, "placement": [1]}).errors
    assert [error.path for error in errors] == ["placement", f"{KEY}.cluster", KEY]
    for key in (KEY, "slurm"):
        entry = NodeEntry("hpc", NodeAddress("login.example"), scheduler=key)
        assert entry.to_dict()[key] is True
        assert NodeEntry.from_dict(entry.to_dict()) == entry
    old_entry = {**NodeEntry("gpu1", NodeAddress("gpu1")).to_dict(), "slurm": False}
    assert NodeEntry.from_dict(old_entry).scheduler == ""


def test_partitions_are_those_of_the_scheduler_whose_program_this_computer_has(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uname").symlink_to(shutil.which("uname") or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    (partition,) = services.launchers.partitions(THIS_COMPUTER)
    assert partition.nodes[0].name == socket.gethostname()


def test_the_settings_the_rules_and_the_window_have_a_third_scheduler() -> None:
    program = f"""
from backend.records.jobs.schedulers import SCHEDULERS
from tests.fakes.at_once_records import SCHEDULER
SCHEDULERS["at_once"] = SCHEDULER
from PySide6.QtWidgets import QApplication
application = QApplication([])
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.flat_settings import effective_settings
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.settings import CHANGEABLE
from widgets.jobs.form.form_sections import FormSections
from widgets.jobs.form.job_fields import JobFields
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog
assert "at_once.nodes" in CHANGEABLE
raw = {RAW!r}
errors = parse_job({{**raw, "on_failure": {{"retries": 1}}}}).errors
assert "at_once" in errors[0].message, errors
fields = JobFields()
sections = FormSections(fields)
sections.offer_clusters({{"hpc": "at_once"}})
fields.show_value("at_once.cluster", "hpc")
assert sections.cluster() == "hpc"
assert "At Once cluster" in AddNodeDialog().scheduler_switches["at_once"].text()
"""
    environment = {**os.environ, "PYTHONPATH": str(CODE_ROOT), "QT_QPA_PLATFORM": "offscreen"}
    completed = subprocess.run(
        (sys.executable, "-c", program), env=environment, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr
