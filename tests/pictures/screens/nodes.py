"""The place Nodes: one node, a rack, a wall, a node's own page, and how nodes are added."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from app.runtime.controller import ignore
from backend.records.base import timestamps
from backend.records.jobs.ledger import LedgerKey, UsageTable, ledger_rows
from backend.records.jobs.placement import THIS_COMPUTER, Placement
from backend.records.jobs.usage import NodeUsage, RunUsage
from backend.records.nodes.entry import SetUp, SetUpStep, StepState
from backend.records.nodes.partition import Partition, PartitionNode
from backend.records.nodes.provisioning_options import IN_JOB, SetUpOptions, options_of
from backend.records.nodes.reading import (
    WARN,
    Finding,
    HealthFinding,
    HostProcess,
    NodeState,
    Presence,
)
from backend.records.queue.entry import Queue, QueuedJob, QueueEntry
from tests.pictures import lab
from tests.pictures.gallery import EVERY, LARGE, LARGE_SMALL, SMALL, SMALLEST, screen
from tests.pictures.stage import Stage
from tests.widgets.nodes import samples
from tests.widgets.nodes.provisioning.test_add_node_dialog import KEY
from tests.widgets.nodes.provisioning.test_reprovision_dialog import THREE_NODES, node
from tests.windows import find_line, find_only
from widgets.common.fields import LineEdit
from widgets.nodes.history.node_history import NodeHistoryData
from widgets.nodes.page.node_actions import hours_question
from widgets.nodes.page.nodes_page import NodesPage
from widgets.nodes.page.usage_dialog import UsageDialog
from widgets.nodes.provisioning.add_node_dialog import AddNodeDialog
from widgets.nodes.provisioning.host_key_pages import PassphraseDialog
from widgets.nodes.provisioning.progress_dialog import SetUpDialog
from widgets.nodes.provisioning.reprovision_dialog import SetUpAgainDialog

_OUTCOMES = (
    ("Reach", "SSH with a key of the agent, sudo not needed", 0.4),
    ("Inspect", "Debian 12, 8 × A100 80 GB, driver 550.54, 2.1 TB free", 1.2),
    ("Python", "3.11.2 in ~/.ringmaster/environments", 14.0),
    ("Open MPI", "5.0.11, the same as on all other nodes", 8.2),
    ("PyTorch", "Horovod 0.28.1, torch 2.13.0; 230 MB sent", 212.0),
    ("Agent", "copied, started, first heartbeat after 2 s", 3.1),
    ("Test", "two ranks, one sum", 9.0),
)
_OUTPUT = (
    "Building horovod 0.28.1 for torch 2.13 …\n"
    "[ 61%] Building CXX object common/ops/nccl_operations.cc.o\n"
)


def _steps(step_index: int, state: StepState, **changes: object) -> SetUp:
    """Steps before ``at`` are done, that one is in ``state``."""
    steps = []
    for n, (title, outcome, seconds) in enumerate(_OUTCOMES):
        if n < step_index:
            steps.append(SetUpStep(title, StepState.DONE, outcome, seconds=seconds))
        else:
            steps.append(
                SetUpStep(title, state, **changes) if n == step_index else SetUpStep(title)
            )  # type: ignore[arg-type]
    return SetUp("gpu13", tuple(steps))


LIVE = _steps(4, StepState.RUNNING, message="building", output=_OUTPUT, seconds=108.0)
BROKEN = _steps(
    4,
    StepState.FAILED,
    message="cmake was not found.",
    remedy="Install it on gpu13: apt install cmake g++",
    output=_OUTPUT,
    seconds=9.0,
)
READY = _steps(7, StepState.DONE)
UNKNOWN_KEY = replace(_steps(0, StepState.FAILED, message="The key of gpu13 is unknown."), key=KEY)
GIVEN_UP = _steps(4, StepState.CANCELLED, message="Cancelled.", output=_OUTPUT, seconds=9.0)
LOCAL_STATES = (replace(samples.state(THIS_COMPUTER, "half", 2), entry=None),)


_UNREADABLE = (
    "The nodes in /lab/ring/nodes cannot be read: Input/output error. "
    "Check that the data root is mounted."
)


def _nodes(stage: Stage, states: tuple[NodeState, ...]) -> NodesPage:
    stage.show_cluster(lab.live(), states)
    page = stage.nodes
    page.show_jobs(lab.JOBS)
    page.show_nodes(states, {"gpu07": lab.NOW - 1900, "gpu11": lab.NOW - 12 * lab.HOUR})
    return page


def _see(page: NodesPage, state: NodeState, over_s: float = 8 * lab.MINUTE) -> None:
    """Fill the history of a node as if the window had been open for ``over_s``."""
    assert state.reading is not None
    history = page.histories[state.name]
    for second in np.arange(-over_s, 0, 2.0).tolist():
        wave = round(3 * math.sin(second / 90))
        gpus = tuple(
            replace(
                gpu,
                temperature_c=(gpu.temperature_c or 0) + wave,
                use_percent=max(0, 90 + wave) if n == 0 else 0,
            )
            for n, gpu in enumerate(state.reading.gpus)
        )
        history.append(replace(state.reading, gpus=gpus), lab.NOW + second)
    page.show_nodes((state,))


screen("nodes", EVERY, ("light",))(lambda stage: _nodes(stage, lab.nodes()))
screen("nodes-1")(lambda stage: _see(_nodes(stage, LOCAL_STATES), LOCAL_STATES[0]))
screen("nodes-4")(lambda stage: _nodes(stage, samples.cluster(4)))
screen("nodes-20")(lambda stage: _nodes(stage, samples.cluster(20)))
screen("nodes-64", EVERY)(lambda stage: _nodes(stage, samples.cluster(64)))
# At 900 px, names break at their hyphens.
for _nodes_shown, _name in ((12, "nodes-long-names"), (64, "nodes-64-long-names")):
    screen(_name, LARGE_SMALL)(
        lambda stage, count=_nodes_shown: _nodes(stage, samples.cluster(count, lab.LONG_NODE))
    )
screen("nodes-processors")(
    lambda stage: _nodes(stage, tuple(samples.state(f"cpu{n}", "ours", 0) for n in range(5)))
)
screen("nodes-all-gone")(
    lambda stage: _nodes(stage, tuple(samples.offline_node(state) for state in samples.cluster(6)))
)


def _detail(
    stage: Stage, name: str, states=None, agent_history: NodeHistoryData | None = None
) -> NodesPage:
    page = _nodes(stage, states or lab.nodes())
    page.open_node(name)
    page.show_agent_history(name, agent_history or lab.agent_history(name))
    return page


HOST_PROCESSES = (
    HostProcess(4200, "mai", "python train.py", 320.0, 8 << 30, 7200.0),
    HostProcess(4201, "mai", "python train.py", 90.0, 3 << 30, 7200.0),
    HostProcess(912, "alice", "MATLAB", 190.0, 21 << 30, 90_000.0),
    HostProcess(1, "root", "mysqld", 0.0, 2 << 30, 900_000.0),
)


@screen("node-detail-processors")
def node_detail_processors(stage: Stage) -> None:
    state = samples.state("cpu1", "ours", 0)
    assert state.reading is not None
    state = replace(state, reading=replace(state.reading, processes=HOST_PROCESSES))
    _nodes(stage, (state, *lab.nodes())).open_node("cpu1")


screen("node-detail", EVERY, ("dark",))(lambda stage: _detail(stage, "gpu07"))


@screen("node-detail-week")
def node_detail_week(stage: Stage) -> None:
    agent_history = lab.agent_history("gpu07", over_s=8 * lab.DAY)
    card = _detail(stage, "gpu07", agent_history=agent_history).detail._history_card
    card._period_picker.choose("168")
    card.show_extended_history()


@screen("node-detail-reserved", LARGE_SMALL)
def node_detail_reserved(stage: Stage) -> None:
    """From 40 minutes on for two hours, and then for another user."""
    page = _detail(stage, "gpu07")
    entry = QueueEntry("q1", "thesis, last run", 1, (Placement("gpu07", 1),), "", length_s=7200.0)
    entries = (
        replace(entry, user="anna", not_before=stamp_in(2400.0)),
        replace(entry, job_id="q2", name="demo", user="ben", not_before=stamp_in(9600.0)),
    )
    page.detail.show_queue(Queue(tuple(QueuedJob(entry, 1) for entry in entries)))
    page.detail._show_history()


def stamp_in(seconds: float) -> str:
    return timestamps.stamp(datetime.fromtimestamp(lab.NOW + seconds, UTC))


@screen("node-detail-ecc")
def node_detail_ecc(stage: Stage) -> None:
    states = [
        replace(
            state,
            reading=replace(
                state.reading,
                gpus=tuple(
                    replace(gpu, ecc_corrected=2 * gpu.index, ecc_uncorrected=0)
                    for gpu in state.reading.gpus
                ),
            ),
        )
        for state in lab.nodes()
    ]
    card = _detail(stage, "gpu07", tuple(states)).detail._history_card
    card._view_picker.choose("ecc")
    card.show_extended_history()


@screen("node-detail-slurm")
def node_detail_slurm(stage: Stage) -> None:
    """The login node of a cluster with its partitions."""
    state = samples.state("hpc", "ours", 0)
    entry = replace(samples.entry("hpc"), scheduler="slurm")
    nodes = (
        PartitionNode("g1", "mixed", gpus={"a100": 4}, used_gpus={"a100": 1}),
        PartitionNode("g2", "drained", gpus={"a100": 4}, reason="fan 3 is broken", is_usable=False),
    )
    page = _nodes(stage, (replace(state, entry=entry), *lab.nodes()))
    page.open_node("hpc")
    partitions = (
        Partition("a100", True, True, 172_800, nodes),
        Partition("long", False, False, None, nodes),
    )
    page.show_partitions("hpc", partitions)


@screen("node-gives-way")
def node_gives_way(stage: Stage) -> None:
    hours = "08:00–18:00 Mon–Fri"
    entry = replace(samples.entry("gpu06"), gives_way=hours)
    states = (
        replace(state, entry=entry) if state.name == "gpu06" else state for state in lab.nodes()
    )
    _detail(stage, "gpu06", tuple(states))
    dialog = stage.lay_over(hours_question("gpu06", hours, ignore, stage.window))
    find_only(LineEdit, dialog).setText("08:00–25:00 Mon–Fri")


screen("node-detail-well")(
    lambda stage: _detail(stage, "gpu06").show_findings(
        "gpu06", (Finding("Python", True, "Python 3.12 with PyTorch 2.13."),)
    )
)


@screen("node-detail-findings", published=("light",))
def node_detail_findings(stage: Stage) -> None:
    page = _detail(stage, "gpu07")
    orphans = (samples.orphan(51204, "j2"), samples.orphan(51210, "j2"))
    page.show_orphans("gpu07", orphans, frozenset({orphans[1].process}))
    page.show_findings(
        "gpu07",
        (
            Finding("Python", True, "Python 3.12 with PyTorch 2.13."),
            Finding("mpirun", True, "Open MPI 5.0.11 at /e/bin/mpirun."),
            Finding("gpu", True, "8 GPU: A100 80 GB; driver 550.54."),
            Finding("clock", False, "The clock is 10 min ahead.", "timedatectl set-ntp true"),
            Finding("disk", False, "/lab/ring has 0.3 GB left.", "Free some space."),
        ),
    )


screen("node-detail-ssh-silent")(
    lambda stage: _detail(stage, "gpu06", tuple(map(_without_ssh, lab.nodes())))
)
screen("nodes-ssh-silent")(lambda stage: _nodes(stage, tuple(map(_without_ssh, lab.nodes()))))


def _without_ssh(state: NodeState) -> NodeState:
    if state.name != "gpu06":
        return state
    remedy = (
        "10.0.4.16 refuses connections on port 22: no SSH server listens there. Its jobs "
        "keep running and "
        "can be stopped; none can be started there. Start sshd on it: systemctl start ssh"
    )
    silent_state = HealthFinding("ssh", WARN, "No SSH since 14:02", remedy, 0.0)
    return replace(state, health=(*state.health, silent_state))


@screen("nodes-unreadable")
def nodes_unreadable(stage: Stage) -> None:
    stage.show_cluster(lab.live(), LOCAL_STATES)
    stage.nodes.show_error(_UNREADABLE)


@screen("nodes-reading")
def nodes_reading(stage: Stage) -> None:
    stage.show_cluster(lab.live(), LOCAL_STATES)
    stage.nodes.begin_reading()
    stage.nodes._reading_timer.timeout.emit()


screen("nodes-no-updates")(lambda stage: _nodes(stage, lab.nodes()).show_error(_UNREADABLE))
screen("nodes-over-ssh")(lambda stage: _nodes(stage, _over_ssh()))
screen("node-detail-new-over-ssh")(lambda stage: _detail(stage, "gpu13", _over_ssh()))
screen("node-detail-over-ssh")(lambda stage: _detail(stage, "gpu11", _over_ssh()))


def _over_ssh() -> tuple[NodeState, ...]:
    """gpu11 is silent and gpu13 is new, and SSH answers on both."""
    new_state = NodeState("gpu13", Presence.NEW, entry=samples.entry("gpu13", is_ready=False))
    new_state = replace(
        new_state, message="not set up yet", reading=samples.reading("gpu13", "other")
    )
    message = "no news since 03:12, SSH responds"
    return tuple(
        replace(state, message=message, over_ssh=True)
        if state.name == "gpu11"
        else replace(state, over_ssh=state.presence is Presence.NEW)
        for state in (*lab.nodes(), new_state)
    )


screen("node-detail-gone")(lambda stage: _detail(stage, "gpu11"))


@screen("node-detail-new")
def node_detail_new(stage: Stage) -> None:
    new_state = NodeState("gpu13", Presence.NEW, entry=samples.entry("gpu13", is_ready=False))
    _nodes(stage, (*lab.nodes(), new_state)).open_node("gpu13")


def _add(
    stage: Stage, host: str = "gpu13.lab.example.org", *, connect: bool = True
) -> AddNodeDialog:
    _nodes(stage, lab.nodes())
    dialog = stage.lay_over(AddNodeDialog(("gpu07",), stage.window))
    edit = find_line(dialog, "Host")
    edit.setText(host)
    edit.textEdited.emit(host)
    if connect:
        dialog._request()
    return dialog


screen("add-node")(lambda stage: _add(stage, connect=False))
screen("add-node-fault")(lambda stage: _add(stage, "gpu07", connect=False))
screen("add-node-connecting")(_add)
screen("add-node-more")(lambda stage: _add(stage, connect=False)._more_button.click())


@screen("add-node-no-share")
def add_node_no_share(stage: Stage) -> None:
    dialog = _add(stage, connect=False)
    dialog._more_button.click()
    dialog.no_share.click()


@screen("add-node-slurm")
def add_node_slurm(stage: Stage) -> None:
    dialog = _add(stage, "login.hpc.example.org", connect=False)
    dialog._more_button.click()
    dialog.scheduler_switches["slurm"].click()
    dialog.choices.switch(IN_JOB).click()


screen("add-node-trust", published=("light",))(lambda stage: _add(stage).ask_trust(KEY))
screen("add-node-changed-key")(
    lambda stage: _add(stage).show_changed_key(
        KEY, "SHA256:9fX0aa7Y0sJm9TgR0ePZyVnE2b1sWc8uXo5dLx0Q111"
    )
)
screen("add-node-passphrase")(
    lambda stage: _add(stage).ask_passphrase("Passphrase for ~/.ssh/id_ed25519")
)
screen("add-node-refused")(
    lambda stage: _add(stage).show_refusal(
        "user", "gpu13 refuses logins as “mai”.", "Choose a key file."
    )
)


@screen("passphrase")
def passphrase(stage: Stage) -> None:
    _nodes(stage, lab.nodes())
    dialog = PassphraseDialog("~/.ssh/id_ed25519", "That passphrase is wrong.", stage.window)
    dialog.show_keyring("No keyring answers here: it would be asked for again.")
    stage.lay_over(dialog)


def _set_up(stage: Stage, state: SetUp) -> SetUpDialog:
    _nodes(stage, lab.nodes())
    dialog = stage.lay_over(SetUpDialog(stage.window))
    fingerprint = "SHA256:k3J9wq7Y0sJm9TgR0ePZVt8mQ2cYxw1LrJ0bZp5dx0Q"
    dialog.show_set_up(
        replace(state, trusted_fingerprint=fingerprint if state.steps else ""), "mai@10.0.4.23"
    )
    return dialog


screen("provision", published=("light",))(lambda stage: _set_up(stage, LIVE))
screen("provision-waiting")(lambda stage: _set_up(stage, SetUp("gpu13")))
screen("provision-failed")(lambda stage: _set_up(stage, BROKEN))
screen("provision-cancelled")(lambda stage: _set_up(stage, GIVEN_UP))
screen("provision-ready")(lambda stage: _set_up(stage, READY))
# A host key that is not trusted yet.
screen("provision-key")(lambda stage: _set_up(stage, UNKNOWN_KEY))
screen("provision-changed-key", (LARGE, SMALL, SMALLEST))(
    lambda stage: _set_up(
        stage, replace(UNKNOWN_KEY, accepted_fingerprint="SHA256:Vt8mQ2cYxw1LrJ0bZp5d")
    )
)


@screen("provision-several", (LARGE, SMALL, SMALLEST))
def provision_several(stage: Stage) -> None:
    dialog = _set_up(stage, LIVE)
    for name, steps in (("gpu14", BROKEN.steps), (lab.LONG_NODE.format(7), READY.steps)):
        dialog.show_set_up(replace(LIVE, node=name, steps=steps))


def _choices(stage: Stage, *arguments: object) -> None:
    _nodes(stage, lab.nodes())
    stage.lay_over(SetUpAgainDialog(*arguments, "5.0.11", stage.window))


screen("set-up-choices")(
    lambda stage: _choices(stage, THREE_NODES, ("gpu1", "gpu3"), SetUpOptions())
)


@screen("set-up-choices-misfit")
def set_up_choices_misfit(stage: Stage) -> None:
    entries = (THREE_NODES[0], node("gpu2", mpirun="", data_root="", is_ready=False))
    _choices(stage, entries, ("gpu2",), SetUpOptions(system_mpi=True, shared=True))


def _choices_of_login_node(stage: Stage, *other_names: str) -> None:
    login_node = replace(node("hpc"), scheduler="slurm")
    assert login_node.installation is not None
    installation = replace(login_node.installation, in_job=True, partition="a100")
    login_node = replace(login_node, installation=installation)
    entries = (login_node, *map(node, other_names))
    names = [entry.name for entry in entries]
    _choices(stage, entries, names, options_of(login_node))


screen("set-up-choices-slurm")(_choices_of_login_node)
screen("set-up-choices-slurm-misfit")(lambda stage: _choices_of_login_node(stage, "gpu1"))


@screen("set-up-choices-64")
def set_up_choices_64(stage: Stage) -> None:
    names = [lab.LONG_NODE.format(n) for n in range(64)]
    _choices(stage, tuple(node(name) for name in names), names, SetUpOptions())


def usage_table(key: LedgerKey = LedgerKey.USER, month_count: int = 12) -> UsageTable:
    """A year of five users on three nodes; not all energy is known."""
    users = ("anna", "ben", "chen", "dora.lindqvist", "emil")
    runs = tuple(
        RunUsage(
            *(f"j{n}", 1, "run", users[(n * n) % 5], ("vision", "speech", "")[n % 3 : n % 3 + 1]),
            ended_at=f"2026-{1 + n % 11:02}-{1 + n % 27:02}T10:00:00Z",
            took_s=3600.0 * (2 + n * 7 % 60),
            waited_s=None if n % 4 == 0 else 500.0 * (n % 17),
            nodes=tuple(
                NodeUsage(f"gpu{k:02}", 4, None if n % 9 == 0 else 2e6 * (2 + n * 7 % 60), 0.17)
                for k in range(1, 2 + n % 3)
            ),
        )
        for n in range(1, 120)
    )
    keys = ((key,), (), (LedgerKey.MONTH, key))
    rows, total, months = (ledger_rows(runs, k) for k in keys)
    return UsageTable(key, rows, total, months, unknown_runs=3)


def _usage(stage: Stage, table: UsageTable | None) -> UsageDialog:
    _nodes(stage, lab.nodes())
    dialog = stage.lay_over(UsageDialog(stage.window))
    if table is not None:
        dialog.show_table(table)
    return dialog


screen("usage", (LARGE, SMALL, SMALLEST))(lambda stage: _usage(stage, usage_table()))
screen("usage-nodes")(lambda stage: _usage(stage, usage_table(LedgerKey.NODE)))
screen("usage-none")(lambda stage: _usage(stage, UsageTable(LedgerKey.USER)))
screen("usage-reading")(lambda stage: _usage(stage, None))
