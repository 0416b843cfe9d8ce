"""The window on a data root that is reached over SSH: it asks for what only the user can say."""

from PySide6.QtWidgets import QLabel

from tests.programs import open_program
from widgets.shell.side_bar import SideBar

pytest_plugins = [
    "tests.backend.ssh.sshd_fixtures",
    "tests.backend.services.access_fixtures",
]


def test_an_unknown_host_key_is_shown_and_accepted_by_a_press(
    qtbot, qapp, remote_site, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    addresses = []
    monkeypatch.setattr(SideBar, "set_root", lambda bar, text: addresses.append(text))
    paths = remote_site.address, tmp_path / "catalogue.sqlite"
    with open_program(qapp, qtbot, *paths, lambda p: p.window.page_key == "refusal") as program:
        assert addresses == [f"lab:{remote_site.root}"]
        assert program.data_root_opener.unknown_key.fingerprint == remote_site.sshd.fingerprint
        labels = [label.text() for label in program._pages.refusal.findChildren(QLabel)]
        assert any("ssh-keygen -lf" in text for text in labels)
        assert not any("--accept-key" in text for text in labels)
        program._pages.refusal.pressed.emit()
        qtbot.waitUntil(lambda: program._services is not None)
        assert program.window.page_key == "jobs"
