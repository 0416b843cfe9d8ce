"""The content of the row of a node."""

from dataclasses import replace

import pytest

from backend.records.nodes.entry import SetUp, SetUpStep, StepState
from backend.records.nodes.reading import GpuProcess, NodeState, Presence
from tests.widgets.nodes import samples
from widgets.nodes.row.node_names import elide_names, strip_domain
from widgets.nodes.row.node_row import Condition, node_row, nodes_summary
from widgets.shell.cluster_summary import HealthCounts

NEW_NODE = NodeState("gpu13", Presence.NEW, entry=samples.entry("gpu13", is_ready=False))


def test_a_healthy_node_shows_its_free_gpus_and_the_users_of_the_others():
    row = node_row(samples.state("gpu01", "half"), samples.JOBS, heartbeat_age_s=1.0)
    assert (row.condition, row.subtitle, row.heartbeat) == (Condition.WELL, "4 free", "now")
    assert [cell.owner for cell in row.gpus[:5]] == ["unet-cells · dice v3"] * 4 + [""]
    assert [cell.use for cell in row.gpus] == ["ours"] * 4 + ["free"] * 4
    assert row.free_gpus == 4


@pytest.mark.parametrize(
    ("changes", "presence", "condition", "subtitle"),
    [
        ({}, Presence.ONLINE, Condition.WELL, "8 free"),
        ({"disk_free_bytes": None}, Presence.ONLINE, Condition.UNKNOWN, "The data root /"),
        ({"memory_total_bytes": 0}, Presence.ONLINE, Condition.UNKNOWN, "Its memory cannot"),
        (None, Presence.ONLINE, Condition.UNKNOWN, "No reading yet"),
        ({"disk_free_bytes": None}, Presence.OFFLINE, Condition.OFFLINE, "Offline"),
        ({"disk_free_bytes": None}, Presence.NEW, Condition.NEW, "Not set up"),
    ],
)
def test_a_node_of_unknown_condition_is_never_healthy(qapp, changes, presence, condition, subtitle):
    state = replace(samples.state("gpu02"), presence=presence)
    reading = None if changes is None else replace(state.reading, **changes)
    row = node_row(replace(state, reading=reading))
    assert row.condition is condition
    assert row.subtitle.startswith(subtitle)
    counts = HealthCounts()
    counts.show_rows((row, node_row(samples.state("gpu03"))))
    assert (counts.accessibleName() == "Nodes: all healthy") is (condition is Condition.WELL)


def test_an_unknown_job_is_named_by_its_owner():
    row = node_row(samples.state("gpu01", "half"))
    assert row.gpus[0].owner == "mai"
    assert row.gpus[0].use == "ours"


def test_heat_makes_a_node_unhealthy_and_is_shown_under_its_name():
    row = node_row(samples.hot_node(samples.state("gpu07", "ours")), samples.JOBS)
    assert (row.condition, row.subtitle, row.subtitle_color) == (
        Condition.UNHEALTHY,
        "GPU 3 slowed by heat",
        "warn",
    )
    assert row.gpus[3].problem == "slowed by heat"
    assert not row.gpus[2].problem


def test_a_gpu_with_memory_errors_is_not_offered_as_free():
    state = samples.state("gpu02")
    cards = (replace(state.reading.gpus[0], ecc_uncorrected=2), *state.reading.gpus[1:])
    state = samples.with_findings(replace(state, reading=replace(state.reading, gpus=cards)))
    row = node_row(state)
    assert row.subtitle == "GPU 0 has 2 memory errors"
    assert row.free_gpus == 7


def test_findings_alone_make_a_row_unhealthy():
    state = samples.hot_node(samples.state("gpu02"))
    row = node_row(replace(state, health=()))
    assert (row.condition, row.subtitle) == (Condition.WELL, "8 free")
    assert not any(cell.problem for cell in row.gpus)
    cooled_node = replace(samples.state("gpu02"), health=state.health)
    row = node_row(cooled_node)
    assert (row.condition, row.subtitle) == (Condition.UNHEALTHY, "GPU 3 slowed by heat")
    assert [cell.problem for cell in row.gpus[2:5]] == ["", "slowed by heat", ""]


def test_an_offline_node_keeps_its_cells_and_shows_no_stale_figure():
    row = node_row(samples.offline_node(samples.state("gpu11", "ours")))
    assert {cell.use for cell in row.gpus} == {"gone"}
    assert len(row.gpus) == 8
    assert (row.processor, row.memory, row.heartbeat) == (None, None, "")
    assert row.notice == "No news since 03:12, no route to host"
    assert row.free_gpus == 0


def test_a_new_node_shows_the_gpus_that_the_inspection_found():
    row = node_row(NEW_NODE)
    assert (row.condition, row.subtitle) == (Condition.NEW, "Not set up")
    assert [cell.use for cell in row.gpus] == ["unknown"] * 8


def test_out_of_service_is_not_free():
    row = node_row(replace(samples.state("gpu02"), presence=Presence.OUT_OF_SERVICE))
    assert (row.subtitle, row.free_gpus, row.condition.is_notable) == ("Out of service", 0, False)


@pytest.mark.parametrize(
    ("state", "subtitle", "color_role"),
    [
        (StepState.RUNNING, "Inspect, 2 of 3", "live"),
        (StepState.FAILED, "Inspect failed", "bad"),
        (StepState.CANCELLED, "Inspect cancelled", "idle"),
    ],
)
def test_the_row_shows_the_step_of_its_set_up(state, subtitle, color_role):
    steps = (SetUpStep("Reach", StepState.DONE), SetUpStep("Inspect", state), SetUpStep("Python"))
    row = node_row(NEW_NODE, set_up=SetUp("gpu13", steps))
    assert (row.subtitle, row.subtitle_color) == (subtitle, color_role)


def test_a_finished_set_up_leaves_the_row():
    set_up = SetUp("gpu02", (SetUpStep("Reach", StepState.DONE),))
    assert node_row(samples.state("gpu02"), set_up=set_up).subtitle == "8 free"


def test_an_old_heartbeat_shows_its_age_and_a_fresh_one_does_not_flicker():
    state = samples.state("gpu02")
    heartbeats = [
        node_row(state, heartbeat_age_s=age).heartbeat for age in (0.1, 2.0, 4.9, 7.2, 80.0)
    ]
    assert [text.replace("\xa0", " ") for text in heartbeats] == [
        "now",
        "now",
        "now",
        "7 s",
        "1 min",
    ]


def test_a_screen_reader_gets_a_sentence_for_a_row():
    row = node_row(samples.hot_node(samples.state("gpu07", "few"), 0))
    assert row.description.replace("\xa0", " ") == (
        "gpu07, Needs attention, GPU 0 slowed by heat, 5 of 8 GPUs free, processor 3 %, memory 9 %"
    )
    assert "in use by alice" in row.gpus[7].description


def test_a_search_finds_nodes_owners_and_jobs():
    row = node_row(samples.state("gpu01", "half"), samples.JOBS)
    assert row.matches("GPU01")
    assert row.matches("unet")
    assert not row.matches("chen")
    assert node_row(samples.state("gpu03", "other")).matches("chen")


def test_a_gpu_without_a_user_name_has_another_user():
    state = samples.state("gpu02")
    unowned_gpu = replace(state.reading.gpus[0], processes=(GpuProcess(1, "", None, "x"),))
    row = node_row(replace(state, reading=replace(state.reading, gpus=(unowned_gpu,))))
    assert row.gpus[0].owner == "another user"


def test_a_gpu_with_a_display_is_free_and_says_so():
    state = samples.state("gpu02")
    display_process = GpuProcess(900, "gdm", None, "Xorg", only_draws=True)
    display_gpu = replace(state.reading.gpus[0], processes=(display_process,))
    row = node_row(replace(state, reading=replace(state.reading, gpus=(display_gpu,))))
    assert row.free_gpus == 1
    assert row.gpus[0].description.startswith("GPU 0, free, a display is on it, ")


def test_counts_in_words():
    rows = [node_row(state) for state in samples.cluster(12)]
    assert nodes_summary(rows) == "10 healthy, 1 needs attention, 1 offline · 42 of 96 GPUs free"
    assert nodes_summary([]) == ""


def test_a_domain_that_all_share_is_not_written():
    assert strip_domain(["a.lab.org", "b.lab.org"]) == ("a", "b")
    assert strip_domain(["a.lab.org", "b.uni.org"]) == ("a.lab.org", "b.uni.org")
    assert strip_domain(["10.0.4.17", "10.1.4.17"]) == ("10.0.4.17", "10.1.4.17")
    assert strip_domain(["a.lab.org", "a"]) == ("a.lab.org", "a"), "two names stay two"


def test_names_that_begin_alike_are_cut_at_their_beginning(qapp):
    names = [f"node-rack3-row7-machine-{n:03d}.cluster.example.org" for n in (1, 2, 3)]
    short_names = elide_names(names, 90, "strong")
    assert [name[-3:] for name in short_names] == ["001", "002", "003"]
    assert all(name.startswith("…") for name in short_names)
