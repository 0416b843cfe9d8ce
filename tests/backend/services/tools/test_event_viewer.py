"""TensorBoard on a job's event files: for this user only, and ended with its owner."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from backend.base.errors import BackendError, Cancelled
from backend.base.progress import Progress
from backend.datastore.access.root_access import OpenRoot
from backend.node.system.start_supervisor import CODE_ROOT, own_environment
from backend.services.tools import event_viewer
from backend.services.tools.event_viewer import EventViewers
from backend.training.curve_files import EventFile
from tests.fakes.mounted_root import mounted
from tests.waiting import LIMIT_S, wait_for

OWNER = """
import os, signal, sys
from pathlib import Path
from backend.services.tools.event_viewer import EventViewers
from tests.fakes.mounted_root import mounted
print(EventViewers(mounted(Path(sys.argv[1]))).open("job"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def root(tmp_path: Path) -> OpenRoot:
    return mounted(tmp_path)


@pytest.fixture
def viewers(root: OpenRoot) -> Iterator[EventViewers]:
    event_viewers = EventViewers(root)
    yield event_viewers
    event_viewers.close()


@pytest.fixture
def events(root: OpenRoot) -> None:
    file = EventFile(root.job("job").tensorboard)
    file.write([(1, {"loss": 0.5}), (2, {"loss": 0.25})])
    file.close()


def status(url: str) -> int:
    """The status of a response, 0 if there is no server."""
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


@pytest.mark.usefixtures("events")
def test_s08_the_events_of_a_job_are_served_to_those_with_the_token(viewers: EventViewers) -> None:
    url = viewers.open("job")
    address = urlsplit(url)
    assert address.hostname == "127.0.0.1"
    with urllib.request.urlopen(f"{url}data/plugin/scalars/tags", timeout=LIMIT_S) as response:
        assert b'"loss"' in response.read()
    for path in ("/", "/data/plugin/scalars/tags", "/data/logdir", f"{address.path[:-2]}/"):
        assert status(f"http://{address.netloc}{path}") == 404
    process, _ = viewers._servers["job"]
    # All users may read the command line of a process.
    token = address.path.strip("/").encode()
    assert token not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert viewers.open("job") == url
    viewers.close()
    assert process.returncode is not None
    assert status(url) == 0


@pytest.mark.usefixtures("events")
def test_a_server_ends_with_its_killed_program(root: OpenRoot) -> None:
    argv = [sys.executable, "-c", OWNER, str(root.path)]
    owner = subprocess.run(argv, cwd=CODE_ROOT, capture_output=True, text=True, check=False)
    url = owner.stdout.strip()
    assert url.startswith("http://127.0.0.1:")
    wait_for(lambda: status(url) == 0)


@pytest.fixture
def replace_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: object
) -> Callable[[str], object]:
    """Let the server import this text as TensorBoard."""
    paths = f"{CODE_ROOT}{os.pathsep}{tmp_path}"
    monkeypatch.setattr(event_viewer, "own_environment", lambda: own_environment(paths))
    return (tmp_path / "tensorboard.py").write_text


def test_a_job_without_events_says_so(viewers: EventViewers) -> None:
    with pytest.raises(BackendError, match="The job job has no event files yet"):
        viewers.open("job")


def test_without_tensorboard_one_sentence_says_how_to_install_it(
    viewers: EventViewers, replace_tensorboard: Callable[[str], object]
) -> None:
    replace_tensorboard("raise ImportError('none')")
    with pytest.raises(BackendError) as caught:
        viewers.open("job")
    assert str(caught.value) == "TensorBoard is not installed."
    assert caught.value.remedy.endswith("-m pip install tensorboard")


def test_a_server_that_does_not_start_is_a_sentence(
    viewers: EventViewers, replace_tensorboard: Callable[[str], object]
) -> None:
    replace_tensorboard("import os; os._exit(3)")
    with pytest.raises(BackendError, match=r"did not start: its process ended\.$"):
        viewers.open("job")


def test_the_start_of_a_viewer_can_be_cancelled(
    viewers: EventViewers,
    replace_tensorboard: Callable[[str], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_tensorboard("import time; time.sleep(600)")
    monkeypatch.setattr(event_viewer, "_END_LIMIT_S", 0.1)
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        viewers.open("job", progress)
