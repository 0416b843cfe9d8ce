"""`installers/bundle`: the whole program in one folder, started where nothing of ours is.

What it starts from is hidden from it: this checkout, its environment and the system's Python lie
under empty mounts, in a namespace of mounts that ends with the process.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QImage

from app.shell.help import TOPICS
from backend import VERSION
from backend.provisioning.code_archive import make_bundle
from backend.provisioning.horovod_wheels import built_wheels
from installers import horovod_wheel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "resources/gallery/digits"
HIDDEN = (sysconfig.get_path("stdlib"), "/usr/lib/python3", sys.prefix, ROOT)
LARGEST_PACKED_BYTES = 120_000_000

WINDOW = """
import faulthandler, json, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLabel
from app.main.bootstrap import Program

# One that stands still says where.
faulthandler.dump_traceback_later(100, exit=True)
app = QApplication(sys.argv[:1])
program = Program(app, Path(sys.argv[1]), None, None)
program.show()

def poll():
    labels = program.jobs.welcome_page.findChildren(QLabel) if program.is_built else ()
    if any("PyTorch" in label.text() and label.isVisible() for label in labels):
        timer.stop()
        program.window.grab().save(sys.argv[2])
        program.window.close()

timer = QTimer()
timer.timeout.connect(poll)
timer.start(20)
code = app.exec()
program.close()
home = Path(sys.executable).parents[2]
names = [getattr(module, "__file__", None) for module in sys.modules.values()]
files = [Path(name) for name in names if name and Path(name).is_absolute()]
print(json.dumps({
    "code": code,
    "torch": "torch" in sys.modules,
    "foreign": sorted(str(path) for path in files if home not in path.parents),
}))
"""

EVERY_MODULE = """
import importlib, pkgutil
for package in ("app", "widgets", "backend"):
    for module in pkgutil.walk_packages([package], f"{package}."):
        # Not those of who trains, nor what others execute: a rank by path, Alembic by itself.
        excluded = ("backend.training.", "backend.node.run.rank_bootstrap", "backend.catalogue.env")
        if not module.name.startswith(excluded):
            importlib.import_module(module.name)
"""

LIBRARIES = """
import ctypes, sys
from pathlib import Path
from PySide6 import QtWidgets
plugins = Path(QtWidgets.__file__).parent / "Qt/plugins"
for name in ("platforms/libqxcb.so", "xcbglintegrations/libqxcb-glx-integration.so"):
    ctypes.CDLL(str(plugins / name))
import _ctypes, _hashlib, _lzma, _sqlite3, _ssl
print("\\n".join({line.split(maxsplit=5)[5] for line in open("/proc/self/maps") if ".so" in line}))
"""


@dataclass(frozen=True)
class UnpackedBundle:
    """A bundle, unpacked in an odd place, and a user who never had anything of ours."""

    folder: Path
    home: Path

    @property
    def python(self) -> Path:
        return self.folder / "python/bin/python3"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
            "QT_QPA_PLATFORM": "offscreen",
        }

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return a command that runs a program of the bundle without sight of this checkout."""
        hide = "".join('mount -t tmpfs none "$1" && shift && ' for _ in HIDDEN)
        shell = ("sh", "-c", f'{hide} exec "$@"', "sh", *HIDDEN)
        return ["unshare", "--mount", "--propagation", "private", *shell, *arguments]

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder / "app",
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def ringmaster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.folder / "ringmaster", *arguments)

    def ask(self, code: str, *arguments: str | Path) -> str:
        """Return the output of code that the Python of the bundle executes."""
        completed = self.run(self.python, "-W", "error", "-c", code, *arguments, PYTHONPATH=".")
        assert completed.returncode == 0, completed.stderr
        return completed.stdout


@pytest.fixture(scope="module")
def bundle_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    completed = subprocess.run(
        [ROOT / "installers/bundle", folder],
        env={**os.environ, "RINGMASTER_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stderr
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def bundle(bundle_file: Path, tmp_path_factory: pytest.TempPathFactory) -> UnpackedBundle:
    folder = tmp_path_factory.mktemp("unpacked") / "größe (neu) 100% ☂"
    folder.mkdir()
    subprocess.run(["tar", "--extract", "--gzip", "--file", bundle_file], cwd=folder, check=True)
    home = tmp_path_factory.mktemp("user")
    return UnpackedBundle(folder / bundle_file.name.removesuffix(".tar.gz"), home)


def test_the_bundle_is_one_folder_without_traces_of_its_maker(bundle_file: Path) -> None:
    maker_paths = [os.fsencode(path) for path in (ROOT, sys.prefix, "/ringmaster/bundles/")]
    with tarfile.open(bundle_file) as archive:
        members = archive.getmembers()
        for member in members:
            if (content := archive.extractfile(member)) is not None:
                data = content.read()
                assert not any(path in data for path in maker_paths), member.name
    (top_folder,) = {member.name.partition("/")[0] for member in members}
    assert top_folder == bundle_file.name.removesuffix(".tar.gz")
    repeated_count = len(members) - len({member.name for member in members})
    assert repeated_count == 1, "of all that is in it, only the folder itself is in both parts"
    owners = {(one.uid, one.gid, one.uname, one.gname, one.mtime) for one in members}
    assert owners == {(0, 0, "", "", 315_532_800)}
    assert {member.mode for member in members} == {0o644, 0o755}


def test_the_bundle_holds_no_more_than_a_desktop_needs(
    bundle_file: Path, bundle: UnpackedBundle
) -> None:
    assert bundle_file.stat().st_size < LARGEST_PACKED_BYTES
    names = {path.name.lower() for path in bundle.folder.rglob("*")}
    assert not names & {"torch", "horovod", "openmpi", "pytest", "libqt6qml.so.6", "tests"}


def test_the_command_line_starts(bundle: UnpackedBundle) -> None:
    assert bundle.ringmaster("--version").stdout == f"Ringmaster {VERSION}\n"
    assert bundle.ringmaster("--help").stdout.startswith("usage: ringmaster [")
    answer = bundle.ringmaster("job", "list", "--json")
    assert (answer.returncode, json.loads(answer.stdout)) == (0, []), answer.stderr


def test_the_bundle_starts_through_a_link_and_ignores_settings_of_other_pythons(
    bundle: UnpackedBundle, tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the standard library is shadowed')\n")
    link = tmp_path / "ringmaster"
    link.symlink_to(bundle.folder / "ringmaster")
    variables = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": str(tmp_path)}
    answer = bundle.run(link, "job", "list", **variables)
    assert answer.returncode == 0, answer.stderr


def test_the_window_opens_and_all_of_it_comes_from_the_folder(
    bundle: UnpackedBundle, tmp_path: Path
) -> None:
    picture = tmp_path / "window.png"
    answer = json.loads(bundle.ask(WINDOW, tmp_path / "root", picture))
    if copy_path := os.environ.get("RINGMASTER_BUNDLE_PICTURE"):
        shutil.copy(picture, copy_path)
    assert answer == {"code": 0, "torch": False, "foreign": []}
    image = QImage(str(picture))
    assert image.width() >= 900
    assert image.height() >= 600
    colours = {
        image.pixelColor(x, y).name()
        for x in range(0, image.width(), 3)
        for y in range(0, image.height(), 3)
    }
    assert len(colours) > 50, "text and icons are drawn, not only areas"


def test_the_window_ends_on_sigint_without_complaints(bundle: UnpackedBundle) -> None:
    catalogues = bundle.home / ".local/share/ringmaster/catalogues"
    shutil.rmtree(catalogues, ignore_errors=True)
    window = subprocess.Popen(
        bundle.command(bundle.folder / "ringmaster"),
        env=bundle.variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # The catalogue is opened after the first frame was painted.
        deadline = time.monotonic() + 100
        while not any(catalogues.glob("*.sqlite")) and window.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        window.send_signal(signal.SIGINT)
        complaints = window.communicate(timeout=100)[1]
    finally:
        window.kill()
        window.communicate()
    unexpected_lines = set(complaints.splitlines()) - {
        "This plugin does not support propagateSizeHints()"
    }
    assert (window.returncode, unexpected_lines) == (0, set())


def test_every_module_finds_its_imports(bundle: UnpackedBundle) -> None:
    bundle.ask(EVERY_MODULE)


def test_libraries_come_from_the_folder_but_those_of_the_desktop(bundle: UnpackedBundle) -> None:
    paths = [Path(line) for line in bundle.ask(LIBRARIES).splitlines()]
    bundled_names = {path.name for path in paths if bundle.folder in path.parents}
    assert {"libxcb-cursor.so.0", "libxkbcommon-x11.so.0", "libssl.so.3"} <= bundled_names
    assert any(name.startswith("libsqlite3.so") for name in bundled_names)
    desktop_names = {path.name for path in paths} - bundled_names
    assert not {name for name in desktop_names if name.startswith(("libQt", "libicu", "libxcb-c"))}


def test_the_bundle_has_all_data_files(bundle: UnpackedBundle) -> None:
    """Data files that freezers forget: code for nodes, help, lock, icons, entry points."""
    app = bundle.folder / "app"
    assert make_bundle(app / "backend").name == make_bundle().name
    assert all((app / "docs" / name).is_file() for name, _ in TOPICS)
    lock = "installers/constraints.txt"
    assert (app / lock).read_bytes() == (ROOT / lock).read_bytes()
    assert {p.name for p in (app / "resources").rglob("*")} == {
        p.name for p in (ROOT / "resources").rglob("*") if "__pycache__" not in p.parts
    } | {p.name for p in (app / "resources").rglob("__pycache__/*")} | {
        p.name for p in (app / "resources").rglob("__pycache__")
    }
    names = (
        "import importlib.metadata as m; print(sorted(e.name for e in m.entry_points(group={!r})))"
    )
    keyrings = names.format("keyring.backends")
    completed = subprocess.run([sys.executable, "-c", keyrings], capture_output=True, text=True)
    assert bundle.ask(keyrings) == completed.stdout != "[]\n"


def test_an_older_catalogue_is_rebuilt(bundle: UnpackedBundle, tmp_path: Path) -> None:
    catalogue = tmp_path / "old.sqlite"
    shutil.copy(ROOT / "tests/data/catalogues/v1.sqlite", catalogue)
    root = tmp_path / "root"
    options = ("--data-root", str(root), "--catalogue", str(catalogue))
    answer = bundle.ringmaster("dataset", "list", "--json", *options)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == [], "what the data root has no more"


def test_a_checkout_reads_imports_of_the_bundle(bundle: UnpackedBundle, tmp_path: Path) -> None:
    root, example = tmp_path / "root", bundle.folder / "app/resources/gallery/digits"
    options = ("--data-root", str(root), "--json")
    imported = bundle.ringmaster(
        "dataset", "import", str(example / "dataset"), "--name", "digits", *options
    )
    assert imported.returncode == 0, imported.stderr
    catalogue = tmp_path / "catalogue.sqlite"
    listing = subprocess.run(
        [sys.executable, ROOT / "main.py", "dataset", "list", *options, "--catalogue", catalogue],
        capture_output=True,
        text=True,
    )
    (version,) = json.loads(listing.stdout)
    # What the import proposes for a new job is not kept.
    assert version == {k: v for k, v in json.loads(imported.stdout).items() if k != "suggestion"}


def test_the_pip_that_fetches_wheels_for_nodes_is_there(bundle: UnpackedBundle) -> None:
    answer = bundle.run(bundle.python, "-m", "pip", "--version")
    assert answer.stdout.startswith("pip ")


def test_the_bundle_has_the_horovod_of_its_maker_for_nodes(bundle: UnpackedBundle) -> None:
    imports = (
        "from backend.services.nodes.provisioning import default_paths; from pathlib import Path; "
    )
    code = f"{imports}print(*default_paths('', Path('x')).horovod, sep='\\n')"
    folders = [Path(line) for line in bundle.ask(code).splitlines()]
    assert bundle.folder / "app/wheels" in folders
    built = {path.parent.name for path in (bundle.folder / "app/wheels").glob("*/*.whl")}
    (name,) = built
    assert name.endswith(horovod_wheel.recipe_hash())
    assert built_wheels([bundle.folder / "app/wheels"])[0].target.machine == platform.machine()


def findings_by_check(answer: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {finding["check"]: finding for finding in json.loads(answer.stdout)}


def test_training_here_is_refused_in_one_sentence_with_the_way_out(bundle: UnpackedBundle) -> None:
    answer = bundle.ringmaster("demo", "--headless")
    assert answer.returncode == 1
    last_line = answer.stderr.strip().splitlines()[-1]
    assert last_line.startswith(
        "This copy of Ringmaster has no PyTorch, so this computer cannot train. "
    )
    set_up = bundle.folder / "app/installers/run"
    assert f"Run '{set_up}' doctor once to set it up" in last_line
    assert os.access(set_up, os.X_OK)
    findings = findings_by_check(bundle.ringmaster("doctor", "--json"))
    assert findings["pytorch"]["sentence"] in last_line
    assert not {"horovod", "mpirun"} & findings.keys(), "one cause is one finding"


def test_user_code_is_inspected_in_a_ready_environment(
    bundle: UnpackedBundle, tmp_path: Path
) -> None:
    requirements = json.loads((bundle.folder / "app/bundle.json").read_text())["requirements"]
    environment = tmp_path / "cache/ringmaster/environments/one"
    environment.mkdir(parents=True)
    record = {"python": sys.executable, "requirements": requirements}
    (environment / "ringmaster.json").write_text(json.dumps(record))

    def ringmaster(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [bundle.folder / "ringmaster", *arguments, "--data-root", tmp_path / "root"],
            env={**bundle.variables, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    for kind in ("dataset", "loader"):
        imported = ringmaster(kind, "import", str(EXAMPLE / kind), "--name", "digits")
        assert imported.returncode == 0, imported.stderr
    preview = ringmaster("dataset", "preview", "digits", "--loader", "digits", "--json")
    assert preview.returncode == 0, preview.stderr
    assert json.loads(preview.stdout)["samples"]


def test_the_menu_starts_the_program_of_the_folder(bundle: UnpackedBundle, tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    completed = bundle.run(bundle.folder / "menu-entry", **data)
    assert completed.returncode == 0, completed.stderr
    entry = (tmp_path / "applications/ringmaster.desktop").read_text()
    program = str(bundle.folder / "ringmaster").replace("%", "%%")
    assert f'Exec="{program}"\n' in entry
    assert (tmp_path / "icons/hicolor/scalable/apps/ringmaster.svg").is_file()
    assert bundle.run(bundle.folder / "menu-entry", "--remove", **data).returncode == 0
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_the_work_of_others_is_named_with_its_licence(bundle: UnpackedBundle) -> None:
    licences = (bundle.folder / "THIRD-PARTY.md").read_text()
    names = {line.split("|")[1].strip() for line in licences.splitlines() if line.startswith("| ")}
    assert {"Python", "PySide6_Essentials", "SQLAlchemy", "numpy", "paramiko", "pip"} <= names
    rows = [line.split("|") for line in licences.splitlines() if line.startswith("| ")][1:]
    assert all(row[3].strip() for row in rows), "each has a licence"
    texts = [row[4].strip().strip("`") for row in rows if row[4].strip().startswith("`")]
    assert all((bundle.folder / text).exists() for text in texts)
    assert (bundle.folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
