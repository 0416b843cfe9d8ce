"""The program on a real screen, seen and touched from outside: dragging, tray, clipboard, screens.

Everything a test does goes through an X server, as a person's hand would.
"""

from __future__ import annotations

import signal

import pytest

from backend.records.checkpoint import Checkpoint
from backend.records.files import replace_json
from backend.records.layout import DataRoot
from tests.app.lived_in import WAITING, move_in, move_out
from tests.display.desk import HEIGHT, LEFT, RIGHT, Desk, wait_for
from tests.fakes import trained

CONTENT = b"weights" * 1000


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Its data root, its catalogue, and the ids of the jobs there."""
    folder = tmp_path_factory.mktemp("real")
    root, catalogue = folder / "root", folder / "catalogue.sqlite"
    ids = move_in(root, catalogue)
    ids["kept"] = trained.job(root, "kept", [1.0] * 30)
    put_checkpoint(root, ids["kept"])
    yield root, catalogue, ids
    move_out(root, catalogue)


def put_checkpoint(root, job_id):
    folder = DataRoot(root).job(job_id).checkpoints
    folder.mkdir(parents=True, exist_ok=True)
    name = "epoch-3-step-30"
    made = Checkpoint(
        name, 1, 3, 30, 0, len(CONTENT), "0" * 64, "0" * 64, "2026-11-21T08:00:00Z", {}
    )
    (folder / f"{name}.pt").write_bytes(CONTENT)
    replace_json(folder / f"{name}.json", made.to_sidecar())


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("desk"))
    desk.set_screens(LEFT, RIGHT)
    desk.start_tray()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def neighbour(desk, tmp_path_factory):
    """On the right screen; it gives a folder that is a model."""
    folder = tmp_path_factory.mktemp("given") / "cats"
    folder.mkdir()
    (folder / "bks_model.py").write_text("import torch\n")
    return desk.start_neighbour(folder, (RIGHT[0] + 600, 100, 300, 300))


def opened(desk, places, config, name):
    root, catalogue, _ = places
    arguments = ["--data-root", str(root), "--catalogue", str(catalogue)]
    program = desk.start_program(arguments, name, XDG_CONFIG_HOME=str(config))
    wait_for(lambda: program.has(WAITING[0], "row"), "the list of jobs")
    wait_for(lambda: program.window()["is_active"], "the window to be active")
    return program


def ended(program):
    program.hang_up()
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(60) == 0


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    settings = folder / "ringmaster" / "window.toml"
    settings.parent.mkdir()
    settings.write_text(
        'theme = "light"\nwidth = 1200\nheight = 800\nposition = [40, 30]\nstays_in_tray = true\n'
    )
    return folder


@pytest.fixture(scope="module")
def program(desk, places, config):
    program = opened(desk, places, config, "first")
    yield program
    if program.process.poll() is None:
        ended(program)


def key(desk, *keys):
    for each in keys:
        desk.hands("key", "--clearmodifiers", each)


def open_job(desk, program, name):
    key(desk, "ctrl+k")
    wait_for(lambda: program.has("Go to anything", "LineEdit"), "the palette")
    desk.hands("type", "--delay", 1, name)
    wait_for(lambda: any(p.name == name and p.text == "What fits" for p in program.parts()), name)
    key(desk, "Return")
    wait_for(lambda: not program.has("Go to anything", "LineEdit"), "the palette to close")


def test_it_stands_where_it_was_left(program):
    x, y, _, height = program.window()["frame"]
    assert (x, y) == (40, 30)
    assert program.window()["box"][2:] == [1200, 800]
    assert height > 800, "the window manager has put no frame around it"


def test_a_folder_dropped_on_a_plot_opens_the_import_with_its_guess(program, desk, neighbour):
    open_job(desk, program, "slow")
    plot = program.find("Loss", "_LargePlot")
    desk.drag(neighbour.source, plot.middle, lambda: program.has("Import “cats”", "DropSheet"))
    assert neighbour.hear("dragged") == "CopyAction"
    dialog = wait_for(lambda: program.windows("ImportDialog"), "the dialog")[0]
    chosen = [part["name"] for part in dialog["parts"] if part["is_chosen"]]
    assert chosen == ["Model"]
    assert program.find("Name", "LineEdit").text == "cats"
    assert not program.has("Import “cats”", "DropSheet")
    key(desk, "Escape")
    wait_for(lambda: not program.windows("ImportDialog"), "the dialog to close")


def test_a_checkpoint_is_dragged_out_as_a_copy_of_its_file(program, desk, neighbour, places):
    root, _, ids = places
    open_job(desk, program, "kept")
    tab = wait_for(
        lambda: [p for p in program.parts() if p.kind == "_Tab" and "Checkpoints 1" in p.name],
        "the checkpoint",
    )[0]
    desk.click(tab.middle)
    row = program.find("epoch-3-step-30", "row")
    begin = (row.box[0] + 40, row.middle[1])
    heard = []

    def is_over():
        if not heard:
            heard.append(neighbour.hear("over"))
        return heard

    desk.drag(begin, neighbour.target, is_over)
    told = neighbour.hear("dropped")
    file = DataRoot(root).job(ids["kept"]).checkpoints / "epoch-3-step-30.pt"
    assert told["paths"] == [str(file)]
    assert told["bytes"] == [len(CONTENT)]
    assert told["offered"] == ["CopyAction"], "nobody may move it out of its job"
    assert file.read_bytes() == CONTENT


def test_a_command_that_is_copied_can_be_pasted_elsewhere(program, desk, neighbour, places):
    open_job(desk, program, WAITING[0])
    tab = next(p for p in program.parts() if p.kind == "_Tab" and p.name == "Settings")
    desk.click(tab.middle)
    wait_for(lambda: any("mpirun" in p.text for p in program.parts()), "the command")
    # The upper one is for the job file.
    copy = max((p for p in program.parts() if p.text == "Copy"), key=lambda p: p.box[1])
    desk.click(copy.middle)
    wait_for(lambda: "mpirun" in neighbour.ask("clipboard"), "the command in the clipboard")


def test_closed_it_stays_in_the_tray_and_a_click_there_brings_it_back(program, desk):
    (icon,) = wait_for(lambda: program.look()["tray"], "the icon in the tray")
    close(desk, program)
    wait_for(lambda: not program.windows("MainWindow"), "the window to go")
    assert program.process.poll() is None
    desk.click((icon[0] + icon[2] // 2, icon[1] + icon[3] // 2))
    wait_for(lambda: program.windows("MainWindow"), "the window to come back")
    assert program.window()["frame"][:2] == [40, 30]


def close(desk, program):
    """As a person does: by the cross of the frame, that is, by what it tells the window."""
    key(desk, "alt+F4")


def test_a_screen_that_is_gone_takes_no_window_along(program, desk, places, config):
    window = program.window()
    bar = (window["frame"][0] + 600, window["frame"][1] + 8)
    there = (RIGHT[0] + 640, 40)
    desk.hands("mousemove", "--sync", *bar, "mousedown", 1)
    try:
        desk.hands("mousemove", "--sync", bar[0] + 30, bar[1] + 5)
        desk.hands("mousemove", "--sync", *there)
    finally:
        desk.hands("mouseup", 1)
    wait_for(lambda: program.window()["frame"][0] >= RIGHT[0] - 100, "the window on the right")
    desk.set_screens((0, 0, LEFT[2], HEIGHT))
    wait_for(lambda: is_on(program.window()["frame"], LEFT), "the window on what is left")
    desk.set_screens(LEFT, RIGHT)


def is_on(frame, screen):
    x, y, width, _ = frame
    return screen[0] <= x + width // 2 <= screen[0] + screen[2] and y >= 0


def test_remembered_on_a_screen_that_is_gone_it_opens_on_the_other(desk, places, tmp_path):
    settings = tmp_path / "ringmaster" / "window.toml"
    settings.parent.mkdir()
    settings.write_text(f"width = 1100\nheight = 760\nposition = [{RIGHT[0] + 40}, 60]\n")
    program = opened(desk, places, tmp_path, "right")
    assert program.window()["frame"][0] == RIGHT[0] + 40
    key(desk, "alt+F4")
    assert program.process.wait(60) == 0, "without the setting, closing ends it"
    desk.set_screens((0, 0, LEFT[2], HEIGHT))
    program = opened(desk, places, tmp_path, "left")
    frame = program.window()["frame"]
    assert is_on(frame, LEFT)
    assert frame[0] + frame[2] <= LEFT[2]
    ended(program)
    desk.set_screens(LEFT, RIGHT)
