"""An inspection of the nodes finds options that do not fit before anything is installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from backend.records.base.layout import NodeHome
from backend.records.nodes.entry import NodeAddress, NodeEntry, NodeInfo, NodeInstallation
from backend.records.nodes.provisioning_options import (
    IN_JOB,
    LIMITS_KEY,
    SHARED,
    SYSTEM_MPI,
    WITHOUT_HOROVOD,
    SetUpOptions,
    choice_errors,
    options_of,
    usual_options,
)

OWN_MPI, BUNDLED_MPI = SetUpOptions(system_mpi=True), SetUpOptions()
SHARES = SetUpOptions(shared=True)
INFO = NodeInfo(
    *("gpu", "Debian 12", "x86_64", "6.1", "mai", "/home/mai/.ringmaster"),
    data_root="/lab/ring",
    data_root_writable=True,
    mpirun="/usr/bin/mpirun",
    mpi_version="4.1.4",
)


def node(name: str, **changes: object) -> NodeEntry:
    return NodeEntry(name, NodeAddress(name), replace(INFO, **changes))  # type: ignore[arg-type]


def ready(name: str, options: SetUpOptions = BUNDLED_MPI, version: str = "5.0.11") -> NodeEntry:
    shared = str(NodeHome.shared_in(PurePosixPath("/lab/ring")).path)
    home = shared if options.shared else "/home/mai/.ringmaster"
    entry = node(name)
    python = f"{home}/environments/e1/bin/python"
    installation = NodeInstallation(
        python,
        "/usr/bin/mpirun" if options.system_mpi else f"{home}/environments/e1/bin/mpirun",
        "4.1.4" if options.system_mpi else version,
        *("e1", "/b", "/c"),
        own_key=options.own_key,
        limits_key=options.limits_key,
        without_horovod=options.without_horovod,
        in_job=options.in_job,
        partition=options.partition,
    )
    return replace(entry, installation=installation)


@pytest.mark.parametrize(
    "options",
    [
        *(BUNDLED_MPI, OWN_MPI, SHARES, SetUpOptions(own_key="/k")),
        *(SetUpOptions(limits_key=True), SetUpOptions(without_horovod=True)),
        *(SetUpOptions(in_job=True), SetUpOptions(in_job=True, partition="a100")),
    ],
)
def test_the_set_up_options_are_read_from_the_node(options: SetUpOptions) -> None:
    assert options_of(ready("gpu1", options)) == options
    assert options_of(node("gpu2")) == SetUpOptions()


def test_a_new_node_is_set_up_as_most_are_and_half_is_not_most() -> None:
    own_nodes = [ready("gpu1", OWN_MPI), ready("gpu2", OWN_MPI)]
    assert usual_options([*own_nodes, ready("gpu3"), node("gpu4")]).system_mpi
    assert not usual_options([own_nodes[0], ready("gpu3")]).system_mpi
    assert usual_options([]) == SetUpOptions()
    assert usual_options([ready("gpu1", SetUpOptions(without_horovod=True))]).without_horovod


def test_a_node_of_a_version_that_always_installed_horovod_has_it() -> None:
    raw = ready("gpu1").to_dict()
    del raw["installation"]["without_horovod"]
    assert options_of(NodeEntry.from_dict(raw)) == BUNDLED_MPI


def test_a_key_of_the_users_own_is_usual_only_where_all_have_it() -> None:
    own_key_node = ready("gpu1", SetUpOptions(own_key="/k"))
    assert usual_options([own_key_node, node("gpu2")]).own_key == "/k"
    assert usual_options([own_key_node, ready("gpu3")]).own_key == ""


def test_nothing_is_wrong_with_the_first_node_however_it_is_chosen() -> None:
    for options in (BUNDLED_MPI, OWN_MPI, SHARES, SetUpOptions(limits_key=True)):
        assert choice_errors(options, [node("gpu1")], [], "5.0.11") == {}


def test_a_node_without_open_mpi_cannot_use_its_own() -> None:
    chosen_nodes = [node("gpu1"), node("gpu2", mpirun="", mpi_version="")]
    error = choice_errors(OWN_MPI, chosen_nodes, [], "5.0.11")[SYSTEM_MPI]
    assert error.startswith("gpu2 has no Open MPI. Install it,")


def test_many_nodes_are_counted_and_not_all_named() -> None:
    chosen_nodes = [node(f"gpu{n}", mpirun="") for n in range(1, 65)]
    error = choice_errors(OWN_MPI, chosen_nodes, [], "5.0.11")[SYSTEM_MPI]
    assert error.startswith("gpu1, gpu2 and 62 more have no Open MPI.")


def test_an_old_open_mpi_is_named_with_its_version() -> None:
    error = choice_errors(OWN_MPI, [node("gpu1", mpi_version="3.1.6")], [], "5.0.11")[SYSTEM_MPI]
    assert error == "gpu1 has Open MPI 3.1.6; only 4.1 and 5.0 can be used."


def test_two_nodes_with_two_versions_of_their_own_do_not_fit() -> None:
    chosen_nodes = [node("gpu1"), node("gpu2", mpi_version="5.0.7")]
    error = choice_errors(OWN_MPI, chosen_nodes, [], "5.0.11")[SYSTEM_MPI]
    assert error.startswith("gpu1 has Open MPI 4.1.4 and gpu2 has 5.0.7;")


def test_one_node_alone_does_not_leave_the_version_of_the_others() -> None:
    other_nodes = [ready("gpu2"), node("gpu3")]
    error = choice_errors(OWN_MPI, [node("gpu1")], other_nodes, "5.0.11")[SYSTEM_MPI]
    assert "Open MPI 4.1.4, and gpu2 has 5.0.11 from Ringmaster" in error
    assert choice_errors(OWN_MPI, [node("gpu1"), other_nodes[0]], other_nodes[1:], "5.0.11") == {}


def test_the_brought_version_does_not_fit_beside_nodes_with_their_own() -> None:
    other_nodes = [ready("gpu2", OWN_MPI)]
    error = choice_errors(BUNDLED_MPI, [node("gpu1")], other_nodes, "5.0.11")[SYSTEM_MPI]
    assert "Open MPI 5.0.11, and gpu2 has 4.1.4 of its own" in error
    assert choice_errors(BUNDLED_MPI, [node("gpu1")], other_nodes, "") == {}, "nothing is guessed"
    assert choice_errors(OWN_MPI, [node("gpu1")], other_nodes, "5.0.11") == {}


@pytest.mark.parametrize(
    ("changes", "prefix"),
    [
        ({"data_root": ""}, "gpu2 does not see the data root"),
        ({"data_root_writable": False}, "gpu2 may not write to the data root"),
    ],
)
def test_nothing_is_shared_where_the_data_root_cannot_be_used(
    changes: dict[str, object], prefix: str
) -> None:
    chosen_nodes = [node("gpu1"), node("gpu2", **changes)]
    assert choice_errors(SHARES, chosen_nodes, [], "")[SHARED].startswith(prefix)
    assert choice_errors(BUNDLED_MPI, chosen_nodes, [], "") == {}


def test_only_a_login_node_of_slurm_makes_its_environment_in_a_job() -> None:
    options = SetUpOptions(in_job=True)
    login_node = replace(node("hpc"), scheduler="slurm")
    assert not choice_errors(options, [login_node], [node("a")], "")
    assert not choice_errors(SetUpOptions(), [node("a")], [], "")
    for names, message in {
        "a": "a is not a login node of Slurm: set it up without a job of Slurm.",
        "ab": "a and b are not login nodes of Slurm: set them up without a job of Slurm.",
    }.items():
        errors = choice_errors(options, [login_node, *map(node, names)], [], "")
        assert errors == {IN_JOB: message}


@pytest.mark.parametrize("options", [BUNDLED_MPI, SetUpOptions(in_job=True, partition="a100")])
def test_an_entry_has_the_job_of_its_environment_only_if_there_was_one(
    options: SetUpOptions,
) -> None:
    """An agent that does not know the keys cannot read them."""
    entry = ready("hpc", options)
    raw = entry.to_dict()
    assert {"in_job", "partition"}.isdisjoint(raw["installation"]) is not options.in_job
    assert NodeEntry.from_dict(raw) == entry


def test_the_names_of_the_choices_are_those_of_the_options() -> None:
    assert {SYSTEM_MPI, SHARED, LIMITS_KEY, WITHOUT_HOROVOD} <= set(
        SetUpOptions.__dataclass_fields__
    )
