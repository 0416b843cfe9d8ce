"""Several nodes set up side by side: what they share, and what one's failure leaves the others."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.cli.printing import FAILED, OK
from backend.datastore.nodes import files as node_files
from backend.provisioning.provisioner import SetUpPlan
from backend.provisioning.provisioner import set_up as real_set_up
from backend.provisioning.wheelhouse import Wheelhouse
from backend.records.nodes.entry import (
    Interface,
    NodeAddress,
    NodeEntry,
    NodeInstallation,
    NodePython,
)
from backend.records.nodes.provisioning_options import SetUpOptions, options_of
from backend.services.nodes import provisioning
from backend.services.nodes.provisioning import ProvisioningService
from backend.services.tools.packages import PackageService
from backend.ssh.interface import Unreachable
from tests.backend.provisioning.provisioner_rig import put_house
from tests.backend.services.nodes.provisioning_rig import HOST_KEY, NAMES, Cluster, cluster_of
from tests.fakes.command_line import run_command


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return put_house(tmp_path_factory.mktemp("service") / "wheels")


@pytest.fixture
def cluster(
    tmp_path: Path, house: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    with cluster_of(tmp_path, house, monkeypatch) as rig:
        yield rig


def test_nodes_are_set_up_at_once_with_one_recipe_and_one_key_and_written_down(
    cluster: Cluster,
) -> None:
    barrier = threading.Barrier(3, timeout=60)

    def meet(argv: tuple[str, ...]) -> None:
        if "venv" in argv:
            barrier.wait()

    for node in cluster.nodes.values():
        node.shell.on_run = meet
    done = cluster.set_up(*NAMES)
    entries = [cluster.entry(name) for name in NAMES]
    assert list(done.values()) == entries
    installations = [entry.installation for entry in entries]
    assert len({(i.environment, i.mpi_version) for i in installations if i}) == 1
    assert {update.node for update in cluster.updates} == set(NAMES)
    assert all(entry.info is not None for entry in entries)
    assert_they_know_each_other(cluster)


def assert_they_know_each_other(cluster: Cluster) -> None:
    homes = [node.home for node in cluster.nodes.values()]
    assert len({(home / "ssh/id_cluster").read_bytes() for home in homes}) == 1
    config = (homes[0] / "ssh/config").read_text()
    known_hosts = (homes[0] / "ssh/known_hosts").read_text()
    for number, name in enumerate(NAMES, start=2):
        assert f"Host 10.77.0.{number}\n" in config
        assert f"{name},10.77.0.{number} {HOST_KEY}\n" in known_hosts


def test_nodes_without_a_common_subnet_let_each_other_in_by_address(cluster: Cluster) -> None:
    for number, name in enumerate(NAMES, start=2):
        vpn = Interface("tailscale0", f"100.64.0.{number}/32")
        node = cluster.nodes[name]
        node.node_info = replace(node.node_info, interfaces=(vpn, Interface("lo", "127.0.0.1/8")))
        entry = replace(
            cluster.entry(name), info=node.node_info, ranks_address=f"10.88.0.{number}/32"
        )
        node_files.write_entry(cluster.root, entry)
    cluster.set_up("gpu1")
    # It was not there when gpu1 was set up, and is known by another address.
    later = replace(cluster.entry("gpu3"), ranks_address="10.99.0.4/32")
    node_files.write_entry(cluster.root, later)
    cluster.set_up("gpu3")
    addresses = [
        (cluster.nodes[name].shell.home / ".ssh/authorized_keys").read_text()
        for name in ("gpu1", "gpu3")
    ]
    assert (
        'from="10.88.0.2/32,10.88.0.3/32,100.64.0.3/32,10.99.0.4/32,100.64.0.4/32"' in addresses[0]
    )
    assert (
        'from="10.99.0.4/32,10.88.0.2/32,100.64.0.2/32,10.88.0.3/32,100.64.0.3/32"' in addresses[1]
    )
    assert "Host 10.88.0.2 100.64.0.2\n" in (cluster.nodes["gpu3"].home / "ssh/config").read_text()
    message = next(step for step in cluster.updates[-1].steps if step.title == "Open MPI").message
    assert "accepted from 10.99.0.4/32, 10.88.0.2" in message


def test_the_set_up_shows_the_accepted_key_of_the_node(cluster: Cluster) -> None:
    line = cluster.folder / "key.pub"
    line.write_text(HOST_KEY)
    fingerprint_line = subprocess.check_output(["ssh-keygen", "-lf", line], text=True)
    cluster.set_up("gpu1")
    assert {update.trusted_fingerprint for update in cluster.updates} == {
        fingerprint_line.split()[1]
    }


def test_the_failure_of_one_node_does_not_stop_the_others(cluster: Cluster) -> None:
    cluster.silent = {"gpu2"}
    done = cluster.set_up("gpu1", "gpu2")
    assert isinstance(done["gpu2"], Unreachable)
    last = [update for update in cluster.updates if update.node == "gpu2"][-1]
    assert last.failed_step is not None
    assert (last.failed_step.title, last.failed_step.remedy) == ("Reach", "Check whether it is on.")
    assert [cluster.entry(name).is_ready for name in NAMES] == [True, False, False]


@pytest.mark.parametrize(
    ("change", "message", "remedy"),
    [
        (
            {"machine": "aarch64"},
            "There is no Horovod for Python 3.11 on aarch64 without CUDA, which "
            "gpu2 has; built on this computer: Python 3.11 on x86_64 without CUDA.",
            "Build it with ./installers/run doctor on a computer whose processor is aarch64, and "
            "set the node up from that computer. Or set the node up without Horovod.",
        ),
        (
            {"pythons": (NodePython("/usr/bin/python3.14", "3.14.0", True),)},
            "There is no Horovod for Python 3.14 on x86_64 without CUDA, which "
            "gpu2 has; built on this computer: Python 3.11 on x86_64 without CUDA.",
            "Run RINGMASTER_PYTHON=python3.14 ./installers/run doctor to build it "
            "here, or install a Python of that list on the node. Or set the node up without "
            "Horovod.",
        ),
    ],
    ids=["machine", "python"],
)
def test_a_node_that_no_wheel_fits_is_refused_before_anything_is_sent_there(
    cluster: Cluster, change: dict[str, object], message: str, remedy: str
) -> None:
    node = cluster.nodes["gpu2"]
    node.node_info = replace(node.node_info, **change)  # type: ignore[arg-type] # fields by their names
    refusal = cluster.set_up("gpu1", "gpu2")["gpu2"]
    assert isinstance(refusal, BackendError)
    assert (refusal.message, refusal.remedy) == (message, remedy)
    failed = [update for update in cluster.updates if update.node == "gpu2"][-1].failed_step
    assert failed is not None
    assert (failed.title, failed.message) == ("Python", message)
    assert (node.shell.sent_bytes, node.home.exists()) == (0, False)
    assert cluster.gathered == 1, "wheels were fetched for it"
    assert cluster.entry("gpu1").is_ready


def test_a_node_is_set_up_without_horovod_and_keeps_that_until_it_is_chosen_again(
    cluster: Cluster,
) -> None:
    (cluster.folder / "horovod").rename(cluster.folder / "built")
    services = SimpleNamespace(provisioning=cluster.service())
    assert run_command(services, "node", "provision", "gpu1", "--without-horovod") == OK
    entry_without = cluster.entry("gpu1")
    assert options_of(entry_without) == SetUpOptions(without_horovod=True)
    cluster.set_up("gpu1", options=options_of(entry_without))
    assert cluster.entry("gpu1") == entry_without
    (cluster.folder / "built").rename(cluster.folder / "horovod")
    cluster.set_up("gpu1", options=replace(options_of(entry_without), without_horovod=False))
    entry_with = cluster.entry("gpu1")
    assert options_of(entry_with) == SetUpOptions()
    assert entry_without.installation is not None
    assert entry_with.installation is not None
    assert entry_without.installation.environment != entry_with.installation.environment


def test_another_desktop_takes_the_key_that_the_nodes_have(cluster: Cluster) -> None:
    cluster.set_up("gpu1")
    cluster.set_up("gpu2", desktop="other")
    first, second = (cluster.nodes[name].home / "ssh/id_cluster" for name in ("gpu1", "gpu2"))
    assert first.read_bytes() == second.read_bytes()


def test_the_set_up_makes_no_second_key_while_its_holders_are_silent(cluster: Cluster) -> None:
    cluster.set_up("gpu1")
    cluster.silent = {"gpu1"}
    with pytest.raises(BackendError, match="none of them returned it: gpu1 did not answer"):
        cluster.set_up("gpu2", desktop="other")


def test_with_a_key_of_the_user_s_own_none_is_made(cluster: Cluster) -> None:
    cluster.set_up("gpu1", options=SetUpOptions(own_key="/home/lab/.ssh/id_ed25519"))
    home = cluster.nodes["gpu1"].home
    assert "IdentityFile /home/lab/.ssh/id_ed25519\n" in (home / "ssh/config").read_text()
    assert not (home / "ssh/id_cluster").exists()
    assert not (cluster.folder / "desktop/keys").exists()


@pytest.mark.parametrize("set_up_together", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_nodes_with_different_open_mpi_are_refused(cluster: Cluster, set_up_together: bool) -> None:
    for name, version in (("gpu1", "4.1.4"), ("gpu2", "4.1.6")):
        mpirun = cluster.folder / f"mpirun-{name}"
        text = f"#!/bin/sh\necho 'mpirun (Open MPI) {version}'\necho sum 2\necho sum 2\n"
        mpirun.write_text(text)
        mpirun.chmod(0o755)
        node = cluster.nodes[name]
        node.node_info = replace(node.node_info, mpirun=str(mpirun), mpi_version=version)
    system_options = SetUpOptions(system_mpi=True)
    if set_up_together:
        done = cluster.set_up("gpu1", "gpu2", options=system_options)
    else:
        done = cluster.set_up("gpu1", options=system_options) | cluster.set_up(
            "gpu2", options=system_options
        )
    refusals = [r for r in done.values() if isinstance(r, BackendError)]
    assert len(refusals) == 1
    assert "4.1.4" in refusals[0].message
    assert "4.1.6" in refusals[0].message
    assert "Set gpu1 and gpu2 up" in refusals[0].remedy or "Set gpu2 and gpu1" in refusals[0].remedy


@pytest.mark.slow
def test_a_node_may_change_its_own_open_mpi(cluster: Cluster) -> None:
    cluster.set_up("gpu1")
    entry = cluster.entry("gpu1")
    assert entry.installation is not None
    older = replace(entry, installation=replace(entry.installation, mpi_version="4.1.4"))
    node_files.write_entry(cluster.root, older)
    assert isinstance(cluster.set_up("gpu1")["gpu1"], NodeEntry)


def test_cancelling_ends_all_set_ups(cluster: Cluster) -> None:
    done = cluster.service().set_up(NAMES, cluster.updates.append, lambda name: True)
    assert [type(r) for r in done.values()] == [Cancelled] * 3
    assert not any(cluster.entry(name).is_ready for name in NAMES)


def test_one_of_several_set_ups_can_be_cancelled(cluster: Cluster) -> None:
    names = NAMES[:2]
    done = cluster.service().set_up(names, cluster.updates.append, lambda name: name == "gpu1")
    assert [type(r) for r in done.values()] == [Cancelled, NodeEntry]
    assert [cluster.entry(name).is_ready for name in names] == [False, True]


@pytest.mark.slow
def test_un_provisioning_returns_the_bytes_and_keeps_the_entry(cluster: Cluster) -> None:
    cluster.set_up("gpu1")
    service = cluster.service()
    installation = cluster.entry("gpu1").installation
    assert installation is not None
    assert [e.name for e in service.environments("gpu1")] == [installation.environment]
    assert service.un_provision("gpu1") > 100_000
    assert not cluster.nodes["gpu1"].home.exists()
    assert not cluster.entry("gpu1").is_ready


def test_several_nodes_are_un_provisioned_at_once_although_one_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def take(_service: ProvisioningService, name: str) -> int:
        if name == "gpu2":
            raise BackendError("gpu2 does not answer.", "Check whether it is on.")
        return 4_000_000

    monkeypatch.setattr(ProvisioningService, "un_provision", take)
    services = SimpleNamespace(provisioning=cluster.service())
    arguments = ("node", "unprovision", "gpu1", "gpu2", "gpu3", "gpu1")
    assert run_command(services, *arguments) == FAILED
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["Removed 4.0 MB from gpu1.", "Removed 4.0 MB from gpu3."]
    assert printed.err == "gpu2: gpu2 does not answer. Check whether it is on.\n"
    assert run_command(services, *arguments, "--json") == FAILED
    error = {"sentence": "gpu2 does not answer.", "remedy": "Check whether it is on."}
    assert json.loads(capsys.readouterr().out) == [
        {"name": "gpu1", "bytes": 4_000_000, "error": None},
        {"name": "gpu2", "bytes": None, "error": error},
        {"name": "gpu3", "bytes": 4_000_000, "error": None},
    ]
    with pytest.raises(BackendError, match="no node “gpu9”"):
        run_command(services, "node", "unprovision", "gpu1", "gpu9")
    assert capsys.readouterr().out == "", "of a name that is wrong nothing is taken"


Act = Callable[[ProvisioningService], object]


@pytest.mark.parametrize(
    "act",
    [
        lambda service: service.set_up(["gpu9"], lambda update: None),
        lambda service: service.un_provision("gpu9"),
    ],
)
def test_an_unknown_node_is_named(cluster: Cluster, act: Act) -> None:
    with pytest.raises(BackendError, match="no node “gpu9”"):
        act(cluster.service())


SILENT_CASES: dict[str, tuple[float | None, bool, bool, bool | str | None]] = {
    "just-wrote": (0.0, False, True, None),
    "ahead-by-2-s": (-2.0, False, True, None),
    "silent-and-dead": (60.0, False, True, True),
    "clock-10-min-ahead-and-dead": (-600.0, False, True, True),
    "never-wrote": (None, False, True, True),
    "silent-and-alive": (60.0, True, True, False),
    "silent-and-off": (60.0, False, False, "did not answer"),
}


def test_a_contact_starts_the_agent_of_a_silent_node_and_of_no_other(cluster: Cluster) -> None:
    cluster.set_up("gpu1")
    status = cluster.root.node("gpu1").status
    for case, (age_s, is_alive, answers, expected) in SILENT_CASES.items():
        cluster.silent = set()
        if is_alive:
            cluster.service().wake("gpu1")
        else:
            cluster.nodes["gpu1"].end_agent()
        status.unlink(missing_ok=True)
        if age_s is not None:
            status.write_text("{}")
            os.utime(status, (time.time() - age_s,) * 2)
        cluster.silent = set() if answers else {"gpu1"}
        # gpu2 is not set up, gpu9 is unknown: neither has an agent to start.
        names = ("gpu1", "gpu2", "gpu9", "gpu1")
        result = cluster.service().wake_silent_nodes(names, lambda address: None)
        assert result.keys() == (set() if expected is None else {"gpu1"}), case
        if isinstance(expected, str):
            assert expected in str(result["gpu1"])
        elif expected is not None:
            assert result["gpu1"] is expected, case
            assert cluster.service().wake("gpu1") is False, f"{case}: it runs now"


def test_a_silent_node_that_does_not_answer_is_not_waited_for(cluster: Cluster) -> None:
    cluster.set_up("gpu1")
    cluster.nodes["gpu1"].end_agent()

    def knock(address: NodeAddress) -> None:
        raise Unreachable(f"{address.host} did not answer.")

    result = cluster.service().wake_silent_nodes(("gpu1",), knock)
    assert "did not answer" in str(result["gpu1"])
    assert cluster.service().wake("gpu1") is True, "nothing was started"


def test_packages_of_user_code_are_kept_when_a_node_is_set_up_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[tuple[str, ...]] = []

    def fake(entry: NodeEntry, _open: object, plan: SetUpPlan, *_: object) -> NodeEntry:
        plans.append(plan.options.packages)
        installation = NodeInstallation(
            "p", "m", "5.0.11", "e", "b", "s", packages=plan.options.packages
        )
        return replace(entry, installation=installation)

    monkeypatch.setattr(provisioning, "set_up", fake)
    packages = PackageService(SimpleNamespace(entry=cluster.entry), cluster.service())  # type: ignore[arg-type]
    packages.install("einops", ["gpu1", "gpu2"], Progress())
    packages.install("timm", ["gpu2"], Progress())
    cluster.set_up("gpu2", "gpu3")
    assert plans[:3] == [("einops",), ("einops",), ("einops", "timm")]
    # Nodes are set up side by side.
    assert sorted(plans[3:]) == [(), ("einops", "timm")]
    cluster.silent = {"gpu1"}
    monkeypatch.setattr(provisioning, "set_up", real_set_up)
    with pytest.raises(BackendError, match="einops is not installed on gpu1: gpu1 did not answer"):
        packages.install("einops", ["gpu1"], Progress())


@pytest.mark.parametrize("name", ["", "-r/etc/passwd", "--index-url=x", "a b", "../a", "a;b", "é"])
def test_an_invalid_package_name_reaches_no_node(cluster: Cluster, name: str) -> None:
    packages = PackageService(SimpleNamespace(entry=cluster.entry), cluster.service())  # type: ignore[arg-type]
    with pytest.raises(BackendError, match="is not the name of a package"):
        packages.install(name, ["gpu1"], Progress())
    assert cluster.updates == []
