"""Sessions on this computer: a small server in place of JupyterLab; in a slow test the real one."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.node.system import process_cleanup, process_identity
from backend.records.base.atomic_files import read_json, replace_json
from backend.records.base.layout import run_tag
from backend.records.jobs.job_file import parse_job
from backend.records.jobs.placement import THIS_COMPUTER
from backend.records.jobs.state import JobState
from backend.records.jobs.status import ProcessIdentity
from backend.records.jobs.view import JobView
from backend.services.context.container import Services
from tests.backend.provisioning.provisioner_rig import UNPACK
from tests.fakes.command_line import run_command
from tests.installers.small_project import put_wheel
from tests.waiting import LIMIT_S, wait_for

SOURCE = Path(__file__).parents[2] / "resources/session/session.py"
JUPYTER = """
import http.server, json, os, sys
options = dict(word.partition("=")[::2] for word in sys.argv[1:])
token = json.load(open(options["--config"]))["IdentityProvider"]["token"]

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        header = self.headers.get("Authorization")
        if header != f"token {token}" and not self.path.endswith(f"?token={token}"):
            return self.send_error(403)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[]" if "/api/" in self.path else b"JupyterLab")

    def log_message(self, *_):
        pass

port = int(options["--ServerApp.port"])
server = http.server.ThreadingHTTPServer((options["--ServerApp.ip"], port), Handler)
with open(f"{os.environ['JUPYTER_RUNTIME_DIR']}/jpserver-{os.getpid()}.json", "w") as file:
    json.dump({"port": port}, file)
server.serve_forever()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture(scope="module")
def package_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A package index with a server in the place of JupyterLab, and a cache of its wheels."""
    index, cache = tmp_path_factory.mktemp("index"), tmp_path_factory.mktemp("cache")
    put_wheel(index, "jupyterlab", "4.5.0", "jupyterlab/__main__.py", JUPYTER)
    put_wheel(index, "ipykernel", "7.0.0", "ipykernel/__init__.py", "")
    put_wheel(index, "uv", version("uv"), f"uv-{version('uv')}.data/scripts/uv", UNPACK)
    return index, cache


@pytest.fixture
def small_jupyter(
    package_folders: tuple[Path, Path], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All packages that this desktop can get."""
    index, cache = package_folders
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))


@pytest.fixture
def session(services: Services, small_jupyter: None) -> Iterator[JobView]:
    view = services.jobs.create_and_start(services.sessions.job_file(THIS_COMPUTER))
    yield view
    services.jobs.lifecycle.stop(view.id)
    services.queries.wait(view.id)


def log_of(services: Services, job_id: str) -> str:
    return services.data_root.job(job_id).rank_log(0).read_text("utf-8")


def url_in(page: Path) -> str:
    match = re.search(r"url=([^\"]+)", page.read_text("utf-8"))
    assert match is not None
    return match[1]


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_browser_of_its_user_alone_gets_in(
    services: Services, session: JobView, home: Path
) -> None:
    page = services.sessions.open(session.id)
    assert page.parent == home
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    url = url_in(page)
    address, _, token = url.partition("?token=")
    assert [status(url), status(address)] == [200, 403]
    arguments = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True)
    assert token not in arguments.stdout
    assert token not in log_of(services, session.id)
    for path in services.data_root.path.rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path
    services.sessions.close()
    assert not page.exists()
    # Another desktop of the user, or the same one after a restart.
    assert url_in(services.sessions.open(session.id)) == url
    services.sessions.close()


def test_a_stop_ends_it_in_order(
    services: Services, session: JobView, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.sessions.open(session.id)
    services.sessions.close()
    progress = Progress()
    progress.cancel()
    with monkeypatch.context() as patches:
        patches.setenv("HOME", str(home / "of-another-user"))
        with pytest.raises(Cancelled):
            services.sessions.open(session.id, progress)
    services.jobs.lifecycle.stop(session.id)
    view = services.queries.wait(session.id)
    assert view.state is JobState.INTERRUPTED
    assert [*(home / ".ringmaster/sessions").iterdir()] == []
    with pytest.raises(BackendError, match=r"does not run: Stopped"):
        services.sessions.open(session.id)


def test_a_paused_session_can_run_again(services: Services, small_jupyter: None) -> None:
    raw = {**services.sessions.job_file(THIS_COMPUTER), "gives_way": True}
    raw["placement"] = [{"node": THIS_COMPUTER, "gpus": ["GPU-a"]}]
    config = parse_job(raw).config
    assert config is not None
    options = (*config.arguments, *config.resume_arguments)
    completed = subprocess.run(
        [sys.executable, SOURCE, *options, "--folder", "/nowhere"], capture_output=True, text=True
    )
    # The arguments are valid, and the folder is checked after them.
    assert completed.stdout.startswith("The folder /nowhere does not exist")


@pytest.mark.parametrize(
    ("options", "state", "message"),
    [
        (
            ("--idle-min", "0.001"),
            JobState.FINISHED,
            "The session ends: no kernel is busy and no GPU is used for 0.001 min.",
        ),
        (("--hours", "1e-5"), JobState.FINISHED, "The session ends: the time limit is 1e-05 h."),
        (("--hours", "0"), JobState.ERROR, "argument --hours: “0” should be more than 0"),
        (("--folder", "/nowhere"), JobState.ERROR, "The folder /nowhere does not exist on "),
    ],
)
def test_it_ends_by_itself_and_says_why(
    services: Services,
    small_jupyter: None,
    options: tuple[str, ...],
    state: JobState,
    message: str,
) -> None:
    raw = services.sessions.job_file(THIS_COMPUTER, arguments=options)
    view = services.jobs.create_and_start(raw)
    assert services.queries.wait(view.id).state is state
    assert message in log_of(services, view.id)


def test_after_a_restart_of_its_node_the_state_is_true_and_it_starts_again(
    services: Services, session: JobView, home: Path
) -> None:
    services.sessions.open(session.id)
    services.sessions.close()
    attempt = services.data_root.job(session.id).attempt(1)
    supervisor, tag = read_json(attempt.supervisor), run_tag(session.id, 1)
    for process in (ProcessIdentity.from_dict(supervisor), *process_cleanup.tagged(tag)):
        process_identity.send_signal(process, signal.SIGKILL)
    wait_for(lambda: not process_cleanup.tagged(tag), "the end of all its processes")
    replace_json(attempt.supervisor, {**supervisor, "boot_id": "before the restart"})
    services.reaper.reap(session.id)
    view = services.queries.show(session.id)
    assert view.state in (JobState.LOST, JobState.ERROR)
    with pytest.raises(BackendError, match="does not run"):
        services.sessions.open(session.id)
    services.jobs.lifecycle.start(session.id, True)
    services.sessions.open(session.id)
    services.sessions.close()
    assert [path.name for path in (home / ".ringmaster/sessions").iterdir()] == [f"{session.id}-2"]


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "inf", "8785", "8h"])
def test_an_impossible_time_limit_is_refused_before_anything_starts(
    services: Services, capsys: pytest.CaptureFixture[str], hours: str
) -> None:
    with pytest.raises(SystemExit):
        run_command(services, "session", "start", "this-computer", f"--hours={hours}")
    message = f"“{hours}” should be a number of hours, more than 0 and at most 8784"
    assert message in capsys.readouterr().err
    assert services.queries.list() == ()


def test_commands_list_the_sessions_that_run(
    services: Services, small_jupyter: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(services, "session", "list")
    assert "No session runs." in capsys.readouterr().err
    run_command(services, "session", "start", "this-computer", "--no-open", "--hours", "2")
    run_command(services, "session", "list", "--json")
    (raw,) = json.loads(capsys.readouterr().out.partition("\n")[2])
    view = services.queries.show(raw["id"])
    assert view.config.arguments == ("--hours", "2", "--idle-min", "30")
    services.jobs.lifecycle.stop(view.id)
    services.queries.wait(view.id)


@pytest.mark.parametrize(("gpus", "message"), [("2", "0 free of 0 GPUs, not 2")])
def test_gpus_that_are_not_free_are_refused(
    services: Services, small_jupyter: None, gpus: str, message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        services.sessions.job_file(THIS_COMPUTER, gpus)


def test_what_does_not_run_is_not_opened(services: Services, small_jupyter: None) -> None:
    view = services.jobs.create(services.sessions.job_file(THIS_COMPUTER))
    with pytest.raises(BackendError, match="does not run: Draft"):
        services.sessions.open(view.id)
    services.queue.pause()
    services.queue.enqueue(view.id)
    with pytest.raises(BackendError) as caught:
        services.sessions.open(view.id)
    assert caught.value.remedy == "Wait until the queue starts it."


@pytest.mark.slow
def test_the_real_jupyterlab_runs_a_kernel_and_writes_no_token(
    services: Services, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    view = services.jobs.create_and_start(services.sessions.job_file(THIS_COMPUTER))
    url = url_in(services.sessions.open(view.id))
    address, _, token = url.partition("/lab?token=")
    headers = {"Authorization": f"token {token}"}
    request = urllib.request.Request(f"{address}/api/kernels", b"{}", headers)
    with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
        assert json.load(response)["name"] == "python3"
    assert [status(url), status(f"{address}/lab")] == [200, 200]
    assert status(f"{address}/api/kernels") == 403
    services.sessions.close()
    services.jobs.lifecycle.stop(view.id)
    assert services.queries.wait(view.id).state is JobState.INTERRUPTED
    log = log_of(services, view.id)
    assert "JupyterLab is ready" in log
    assert token not in log
