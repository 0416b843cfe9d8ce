"""The library, the nodes and the data root itself, mounted and reached over SFTP alike."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.cli.main import run as cli
from backend.node.metrics.history_writer import HistoryWriter
from backend.records.base.atomic_files import read_json
from backend.records.base.layout import DataRoot
from backend.records.base.remote_root import RemoteRoot
from backend.records.jobs.job_file import parse_job
from backend.records.library.gallery import DataShape
from backend.records.library.item import Kind
from backend.records.nodes import health
from backend.records.nodes.reading import NodeReading, Presence
from backend.services.context.container import Services, open_services
from backend.ssh.sftp import SftpFiles
from tests.backend.services.access_cases import NODE, Beat, DataSite, on_node
from tests.waiting import LIMIT_S, wait_for

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]
pytestmark = pytest.mark.usefixtures("uncounted")


def test_a_library_is_imported_listed_read_and_removed(site: DataSite) -> None:
    first, second = site.desktop(), site.desktop()
    site.stock(first)
    assert [item.reference for item in second.library.list(Kind.MODEL)] == ["tiny@1"]
    version = site.root / "models" / "tiny" / "v1"
    assert sorted(path.name for path in version.iterdir()) == ["files.sha256", "meta.json", "src"]
    assert version.stat().st_mode & 0o777 == 0o755
    assert [first.path for first in second.library.files(Kind.MODEL, "tiny")] == ["bks_model.py"]
    assert "UserModel" in second.library.text(Kind.MODEL, "tiny", "bks_model.py")
    with pytest.raises(BackendError, match="is not a file of the model"):
        second.library.text(Kind.MODEL, "tiny", "../meta.json")
    pin = second.library.pin(Kind.MODEL, "tiny")
    second.library.verify(Kind.MODEL, pin)
    content = second.library.open_content(Kind.MODEL, "tiny@1")
    assert (content / "bks_model.py").read_bytes() == (version / "src/bks_model.py").read_bytes()
    (site.root / "models" / "more" / "v1").mkdir(parents=True)
    assert [item.reference for item in first.library.list(Kind.MODEL)] == ["tiny@1"]
    assert first.library.remove(Kind.MODEL, "tiny").version == 1
    assert second.library.list(Kind.MODEL) == ()
    assert not version.exists()
    assert read_json(version.with_name("v1.removed"))["item"]["name"] == "tiny"
    with pytest.raises(BackendError, match="was removed on"):
        second.library.show(Kind.MODEL, "tiny@1")
    site.stock(second)
    assert first.library.show(Kind.MODEL, "tiny").version == 2


def test_a_loader_is_suggested_by_the_first_bytes_of_the_files(site: DataSite) -> None:
    services = site.desktop()
    source = site.root.parent / "source"
    source.mkdir()
    (source / "iris.csv").write_text("a,b,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n")
    services.library.import_item(Kind.DATASET, source, "iris")
    suggestion = site.desktop().gallery.suggest("iris")
    assert suggestion is not None
    message = "This looks like a table: iris.csv with 3 columns; predicted is kind."
    assert suggestion.message == message
    assert suggestion.data_sizes == {"features": 2, "classes": 2}
    assert services.gallery.data_shape("iris").task == "classification"
    (source / "iris.csv").write_text("rooms,price\n1,2.5\n3,4.25\n5,6.125\n7,8.0625\n")
    services.library.import_item(Kind.DATASET, source, "homes")
    assert services.gallery.data_shape("homes") == DataShape("regression", {"features": 1})
    item = services.gallery.add(suggestion.entry, suggestion.settings, "iris")
    assert item.reference == "iris@1"
    with pytest.raises(BackendError, match="There is no dataset “roses”"):
        services.gallery.suggest("roses")


def test_two_desktops_that_import_at_once_get_two_versions(site: DataSite) -> None:
    desktops = [site.desktop(), site.desktop()]
    source = site.root.parent / "source"
    source.mkdir()
    (source / "a.csv").write_text("1,2\n")
    barrier = threading.Barrier(2)

    def import_model(services: Services) -> int:
        barrier.wait()
        return services.library.import_item(Kind.DATASET, source, "digits").version

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(import_model, desktops)) == [1, 2]
    assert sorted(path.name for path in (site.root / "datasets").iterdir()) == ["digits"]


def test_a_changed_byte_is_refused_and_the_file_named(site: DataSite) -> None:
    services = site.desktop()
    site.stock(services)
    pin = services.library.pin(Kind.MODEL, "tiny")
    services.library.verify(Kind.MODEL, pin)
    file = site.root / "models" / "tiny" / "v1" / "src" / "bks_model.py"
    file.write_text(file.read_text().replace("Linear(4, 2)", "Linear(4, 3)") + "\n")
    with pytest.raises(BackendError, match=r"was changed after.*bks_model\.py"):
        services.library.verify(Kind.MODEL, pin)
    (file.parent / "more.py").touch()
    with pytest.raises(BackendError, match=r"contains .*more\.py"):
        services.library.verify(Kind.MODEL, pin)


def test_a_cancelled_import_leaves_nothing(site: DataSite) -> None:
    services = site.desktop()
    source = site.root.parent / "source"
    source.mkdir()
    for number in range(20):
        (source / f"{number}.bin").write_bytes(bytes(50_000))

    class Impatient(Progress):
        def report(self, done: float, total: float, label: str) -> None:
            if label == ("Copying files" if site.is_mounted else "Sending files"):
                self.cancel()

    with pytest.raises(Cancelled):
        services.library.import_item(Kind.DATASET, source, "digits", Impatient())
    assert list((site.root / "datasets").iterdir()) == []
    assert services.library.list(Kind.DATASET) == ()


def test_a_rescan_finds_imports_of_others(site: DataSite, beat: Beat) -> None:
    first = site.desktop()
    site.stock(first)
    beat(site)
    view = first.jobs.create(on_node())
    report = site.desktop().library.rescan()
    assert (report.datasets, report.models, report.loaders, report.jobs) == (1, 1, 1, 1)
    assert report.problems == ()
    (site.root / "jobs" / view.id / "config.toml").write_text("nothing = 1\n")
    report = first.library.rescan()
    assert report.jobs == 0
    assert "config.toml" in report.problems[0]


def test_nodes_are_added_seen_and_removed(site: DataSite, beat: Beat, sshd, monkeypatch) -> None:
    first, second = site.desktop(), site.desktop()
    added = first.cluster.add("gpu2", sshd.address, accept=lambda key: True)
    assert added.info is not None
    assert (added.info.data_root, added.info.data_root_writable) == (str(site.root), True)
    assert [path.name for path in site.root.iterdir()] == ["nodes"]
    heart = beat(site)
    assert [entry.name for entry in second.cluster.list()] == [NODE, "gpu2"]
    expected = {NODE: Presence.ONLINE, "gpu2": Presence.NEW}
    wait_for(
        lambda: {state.name: state.presence for state in second.nodes.remote()} == expected,
        "beats of one, and none of the other",
    )
    first.cluster.set_in_service("gpu2", False)
    assert not second.cluster.entry("gpu2").in_service
    first.cluster.remove("gpu2")
    assert [entry.name for entry in second.cluster.list()] == [NODE]
    heart.stop()
    monkeypatch.setattr(health, "_SHORTEST_S", 0.3)
    wait_for(lambda: second.nodes.remote()[0].presence is Presence.OFFLINE, "silence")
    assert second.nodes.remote()[0].message.startswith("no news")


def test_the_hours_of_a_node_are_read_on_and_through_a_change_of_files(
    site: DataSite, beat: Beat
) -> None:
    beat(site)
    services = site.desktop()
    folder = DataRoot(site.root).node(NODE)
    status = NodeReading.from_dict(read_json(folder.status))
    ages = iter(range(4000, 0, -20))

    def write_readings(history: HistoryWriter, count: int) -> None:
        for _ in range(count):
            history.append(history.lines(status), status)

    now = time.time()
    history = HistoryWriter(folder, every_s=0, limit_bytes=2_000, clock=lambda: now - next(ages))
    assert services.nodes.history(NODE) == ()
    write_readings(history, 3)
    assert [round(now - reading.at_s) for reading in services.nodes.history(NODE)] == [
        4000,
        3980,
        3960,
    ]
    write_readings(history, 100)
    assert folder.earlier_history.exists()
    of_week, *ages_s = (round(now - reading.at_s) for reading in services.nodes.history(NODE))
    assert of_week == 4000
    assert ages_s[-1] == 4000 - 20 * 102
    assert ages_s == list(range(ages_s[0], ages_s[-1] - 1, -20))
    with pytest.raises(BackendError):
        services.nodes.history("nobody")


def mirror_bytes(services: Services) -> int:
    """Of what a desktop has of its data root, however long files say that they are."""
    return sum(path.stat().st_blocks * 512 for path in services.data_root.path.rglob("*"))


@pytest.mark.parametrize(
    "name",
    [
        *("past.jsonl", "status.json"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("earlier.jsonl", "week.jsonl", "node.json")
        ),
    ],
)
def test_f59_ten_gigabytes_in_a_node_s_folder_are_neither_fetched_nor_read(
    site: DataSite, beat: Beat, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first read of a silent node waits until its silence is certain.
    monkeypatch.setattr(health, "_SHORTEST_S", 0.3)
    beat(site).stop()
    services = site.desktop()
    services.nodes.remote()
    path = DataRoot(site.root).node(NODE).path / name
    path.touch()
    os.truncate(path, 10_000_000_000)
    bytes_before = site.wire.came_bytes
    for _ in range(3):
        services.nodes.remote()
        if name != "node.json":
            assert services.nodes.history(NODE) == ()
    assert mirror_bytes(services) < 10_000_000
    assert site.wire.came_bytes - bytes_before < 20_000_000


def test_f59_a_node_that_always_rewrites_its_history_delays_no_read(
    remote_site: DataSite, beat: Beat, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(remote_site)
    services = remote_site.desktop()
    folder = DataRoot(remote_site.root).node(NODE)
    read = SftpFiles.read
    write_count = 0

    def read_and_replace(files: SftpFiles, path: str, offset: int, limit_bytes: int) -> bytes:
        nonlocal write_count
        if path == str(folder.history):
            write_count += 1
            folder.history.write_bytes(b"%09d" % write_count * 300_000)
        return read(files, path, offset, limit_bytes)

    folder.history.write_bytes(bytes(2_000_000))
    monkeypatch.setattr(SftpFiles, "read", read_and_replace)
    assert services.nodes.history(NODE) == ()
    assert 1 < write_count < 10


def test_the_data_root_is_made_and_checked(site: DataSite, tmp_path: Path) -> None:
    def address(path: Path) -> Path | RemoteRoot:
        return path if site.is_mounted else RemoteRoot("lab", str(path))

    site.desktop()
    catalogue = tmp_path / "desktop-0" / "catalogue.sqlite"
    open_services(address(tmp_path / "fresh"), catalogue).close()
    assert (tmp_path / "fresh").is_dir()
    with pytest.raises(BackendError, match=r"data root .*nothing/here does not exist"):
        open_services(address(tmp_path / "nothing" / "here"), catalogue)
    (tmp_path / "file").touch()
    with pytest.raises(BackendError, match=r"data root .*file is a file"):
        open_services(address(tmp_path / "file"), catalogue)


def test_the_preflight_check_proves_that_all_nodes_see_one_data_root(
    site: DataSite, beat: Beat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine answers late, and what is not answered is no proof.
    monkeypatch.setenv("RINGMASTER_PREFLIGHT_S", str(10 * LIMIT_S))
    services = site.desktop()
    beat(site)
    config = parse_job(on_node(strategy={"name": "alone"})).config
    assert config is not None
    result = services.preflight.run(config)
    assert [f.message for f in result.blocking_findings if f.check == "data root"] == []
    assert [f.ok for f in result.findings if f.check == "data root"] == [True]
    # The folder of all jobs, which the check asks for, and nothing of the check itself.
    assert sorted(path.name for path in site.root.iterdir()) == ["jobs", "nodes"]
    assert list((site.root / "jobs").iterdir()) == []
    site.add_node(tmp_path / "another")
    result = services.preflight.run(config)
    assert [f.check for f in result.blocking_findings if f.check == "data root"] == ["data root"]


def test_the_command_line_takes_both(
    site: DataSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(*arguments: str) -> tuple[int, str, str]:
        options = (
            "--data-root",
            str(site.address),
            "--catalogue",
            str(tmp_path / "c" / "c.sqlite"),
        )
        code = cli([*options, *arguments], lambda *_: pytest.fail("these words open no window"))
        return code, *capsys.readouterr()

    if not site.is_mounted:
        code, out, err = main("job", "list")
        assert (code, out) == (1, "")
        assert f"--accept-key {site.sshd.fingerprint}" in err
    accept = ("--accept-key", site.sshd.fingerprint)
    assert main(*accept, "job", "list")[0] == 0
    site.stock(site.desktop())
    code, out, _ = main("model", "list", "--json")
    assert (code, [item["name"] for item in json.loads(out)]) == (0, ["tiny"])
    code, out, _ = main("model", "remove", "tiny")
    shown_root = site.root if site.is_mounted else f"lab:{site.root}"
    assert out == f"Moved model tiny@1 to {shown_root}/trash.\n"
