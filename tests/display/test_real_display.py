"""The program on a real screen, seen and touched from outside: dragging, tray, clipboard, screens.

Everything a test does goes through an X server, as a user's hand would.
"""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path

import pytest
import torch

from backend.datastore.jobs.files import read_job
from backend.records.base.atomic_files import replace_json
from backend.records.base.layout import DataRoot
from backend.records.jobs.checkpoint import Checkpoint
from backend.services.context.container import open_services
from tests.app.used_data_root import QUEUED_NAMES, move_in
from tests.display.desk import HEIGHT, LEFT, RIGHT, Desk
from tests.fakes import trained
from tests.keepers import end_keeper
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

CHECKPOINT = "epoch-3-step-30"


@pytest.fixture(scope="module")
def used_root(tmp_path_factory):
    """The data root and catalogue of the program, and the ids of the jobs there."""
    folder = tmp_path_factory.mktemp("real")
    root, catalogue = folder / "root", folder / "catalogue.sqlite"
    ids = move_in(root, catalogue)
    ids["kept"] = trained.job(root, "kept", [1.0] * 30, pins=pins_of(root, ids[QUEUED_NAMES[0]]))
    put_checkpoint(root, ids["kept"])
    yield root, catalogue, ids
    end_keeper(DataRoot(root))


def pins_of(root, job_id):
    """Of a model, a dataset and a loader that are there."""
    return read_job(DataRoot(root).job(job_id)).pins


def put_checkpoint(root, job_id):
    folder = DataRoot(root).job(job_id).checkpoints
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{CHECKPOINT}.pt"
    torch.save({"model": {"weight": torch.arange(64.0)}}, file)
    content = file.read_bytes()
    record = Checkpoint(
        CHECKPOINT,
        1,
        3,
        30,
        0,
        len(content),
        hashlib.sha256(content).hexdigest(),
        "0" * 64,
        "2026-11-21T08:00:00Z",
        {},
    )
    replace_json(folder / f"{CHECKPOINT}.json", record.to_dict())


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


def open_program(desk, used_root, config, name):
    root, catalogue, _ = used_root
    arguments = ["--data-root", str(root), "--catalogue", str(catalogue)]
    program = desk.start_program(arguments, name, XDG_CONFIG_HOME=str(config))
    wait_for(lambda: program.has_part(QUEUED_NAMES[0], "row"), "the list of jobs")
    wait_for(lambda: program.window()["is_active"], "the window to be active")
    return program


def end_program(program):
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
def program(desk, used_root, config):
    program = open_program(desk, used_root, config, "first")
    yield program
    if program.process.poll() is None:
        end_program(program)


def press_keys(desk, *keys):
    for name in keys:
        desk.hands("key", "--clearmodifiers", name)


def open_job(desk, program, name):
    press_keys(desk, "ctrl+k")
    wait_for(lambda: program.has_part("Command palette", "LineEdit"), "the palette")
    desk.hands("type", "--delay", 1, name)
    wait_for(lambda: any(p.name == name and p.text == "Matches" for p in program.parts()), name)
    press_keys(desk, "Return")
    wait_for(lambda: not program.has_part("Command palette", "LineEdit"), "the palette to close")


def test_the_window_opens_where_it_was_closed(program):
    x, y, _, height = program.window()["frame"]
    assert (x, y) == (40, 30)
    assert program.window()["box"][2:] == [1200, 800]
    assert height > 800, "the window manager has put no frame around it"


def test_a_folder_dropped_on_a_plot_opens_the_import_with_its_guess(program, desk, neighbour):
    open_job(desk, program, "slow")
    plot = program.find("Loss", "LargePlot")
    desk.drag(
        neighbour.source, plot.center, lambda: program.has_part("Import “cats”", "DropOverlay")
    )
    assert neighbour.hear("dragged") == "CopyAction"
    dialog = wait_for(lambda: program.windows("ImportDialog"), "the dialog")[0]
    chosen_names = [part["name"] for part in dialog["parts"] if part["is_chosen"]]
    assert chosen_names == ["Model"]
    assert program.find("Name", "LineEdit").text == "cats"
    assert not program.has_part("Import “cats”", "DropOverlay")
    press_keys(desk, "Escape")
    wait_for(lambda: not program.windows("ImportDialog"), "the dialog to close")


def test_a_dragged_checkpoint_is_the_file_that_export_writes(
    program, desk, neighbour, used_root, tmp_path
):
    root, catalogue, ids = used_root
    open_job(desk, program, "kept")
    tab = wait_for(
        lambda: [p for p in program.parts() if p.kind == "_Tab" and "Checkpoints 1" in p.name],
        "the checkpoint",
    )[0]
    desk.click(tab.center)
    row = program.find(CHECKPOINT, "row")
    start = (row.box[0] + 40, row.center[1])
    message = "“kept.zip” is ready: drop it in a folder"
    desk.drag(start, neighbour.target, lambda: program.has_said(message))
    drop_event = neighbour.hear("dropped")
    exported_file = tmp_path / "export.zip"
    services = open_services(root, catalogue)
    services.jobs.export(ids["kept"], CHECKPOINT, "zip", exported_file)
    services.close()
    (path,) = map(Path, drop_event["paths"])
    assert path.name == "kept.zip"
    assert root not in path.parents, "the checkpoint itself is not given away"
    assert drop_event["sha256"] == [hashlib.sha256(exported_file.read_bytes()).hexdigest()]
    assert drop_event["offered"] == ["CopyAction"], "it must not be moved out of its job"


def test_a_job_that_waits_is_dragged_to_another_place_in_the_queue(program, desk, used_root):
    root, catalogue, _ = used_root
    open_job(desk, program, QUEUED_NAMES[2])

    def shown_names():
        rows = [p for p in program.parts() if p.kind == "row" and p.name in QUEUED_NAMES]
        return [p.name for p in sorted(rows, key=lambda p: p.box[1])]

    services = open_services(root, catalogue)

    def queued_names():
        return [job.entry.name for job in services.queue.read().jobs]

    old_order = queued_names()
    wait_for(lambda: shown_names() == old_order, "the queue in its order")
    first_row, last_row = program.find(old_order[0], "row"), program.find(old_order[2], "row")
    drop_point = (first_row.center[0], first_row.box[1] + 6)

    def is_aimed():
        return any(p.description == f"Before {old_order[0]}" for p in program.parts())

    desk.drag((last_row.box[0] + 60, last_row.center[1]), drop_point, is_aimed)
    new_order = [old_order[2], old_order[0], old_order[1]]
    wait_for(lambda: shown_names() == new_order, "the row where it was dropped")
    assert queued_names() == new_order
    services.close()


def test_a_job_is_dragged_onto_compare_in_the_side_bar_and_onto_its_page(program, desk):
    open_job(desk, program, "slow")
    button = program.find("Compare", "NavButton")

    def has_description(description):
        return lambda: any(
            p.kind == "NavButton" and p.description == description for p in program.parts()
        )

    row = program.find("slow", "row")
    desk.drag((row.box[0] + 60, row.center[1]), button.center, has_description("Compare “slow”"))
    wait_for(lambda: program.has_said("1 job is compared"), "the job to be compared")

    # Held over the place for a while, Compare itself comes, and takes it as well.
    press_keys(desk, "ctrl+1")
    row = program.find("fast", "row")
    desk.hands("mousemove", "--sync", row.box[0] + 60, row.center[1], "mousedown", 1)
    try:
        desk.hands("mousemove", "--sync", row.box[0] + 90, row.center[1])
        desk.hands("mousemove", "--sync", *button.center)
        offsets = iter(range(1, 10_000))

        def has_compare_page():
            desk.hands(
                "mousemove", "--sync", button.center[0] + next(offsets) % 2, button.center[1]
            )
            return program.has_part("", "ComparePage")

        wait_for(has_compare_page, "Compare")
        page = program.find("", "ComparePage").center
        desk.hands("mousemove", "--sync", page[0] - 5, page[1])
        desk.hands("mousemove", "--sync", *page)
        wait_for(lambda: program.has_part("Compare “fast”", "DropOverlay"), "what a drop would do")
    finally:
        desk.hands("mouseup", 1)
    wait_for(lambda: program.has_said("2 jobs are compared"), "the other one, too")
    wait_for(lambda: program.has_part("slow", "") and program.has_part("fast", ""), "both of them")


def test_weights_are_dropped_on_a_model(program, desk, used_root, tmp_path):
    root, _, _ = used_root
    file = tmp_path / "best.pt"
    file.write_bytes(b"PK\x03\x04 numbers")
    weights_source = desk.start_neighbour(file, (RIGHT[0] + 200, 500, 200, 200))
    press_keys(desk, "ctrl+4")
    row = program.find("digits", "row")
    message = "Give digits @ 1 the weights “best.pt”"
    desk.drag(weights_source.source, row.center, lambda: program.has_part(message, "DropOverlay"))
    assert weights_source.hear("dragged") == "CopyAction"
    wait_for(
        lambda: program.has_said("New jobs of digits start from these weights"),
        "the weights to be copied",
    )
    assert (root / "models/digits/v1/weights.pt").read_bytes() == file.read_bytes()


def test_a_copied_command_can_be_pasted_elsewhere(program, desk, neighbour, used_root):
    open_job(desk, program, QUEUED_NAMES[0])
    tab = next(p for p in program.parts() if p.kind == "_Tab" and p.name == "Settings")
    desk.click(tab.center)
    wait_for(lambda: any("mpirun" in p.text for p in program.parts()), "the command")
    desk.click(program.at_rest("Copy command"))
    wait_for(lambda: "mpirun" in neighbour.ask("clipboard"), "the command in the clipboard")


def test_a_closed_window_stays_in_the_tray_and_a_click_restores_it(program, desk):
    (icon,) = wait_for(lambda: program.read_windows()["tray"], "the icon in the tray")
    close(desk, program)
    wait_for(lambda: not program.windows("MainWindow"), "the window to go")
    assert program.process.poll() is None
    desk.click((icon[0] + icon[2] // 2, icon[1] + icon[3] // 2))
    wait_for(lambda: program.windows("MainWindow"), "the window to come back")
    assert program.window()["frame"][:2] == [40, 30]


def close(desk, program):
    """Close the window by the key that sends the same message as the cross of the frame."""
    press_keys(desk, "alt+F4")


def test_a_removed_screen_hides_no_window(program, desk, used_root, config):
    window = program.window()
    bar = (window["frame"][0] + 600, window["frame"][1] + 8)
    target = (RIGHT[0] + 640, 40)
    desk.hands("mousemove", "--sync", *bar, "mousedown", 1)
    try:
        desk.hands("mousemove", "--sync", bar[0] + 30, bar[1] + 5)
        desk.hands("mousemove", "--sync", *target)
    finally:
        desk.hands("mouseup", 1)
    wait_for(lambda: program.window()["frame"][0] >= RIGHT[0] - 100, "the window on the right")
    desk.set_screens((0, 0, LEFT[2], HEIGHT))
    wait_for(lambda: is_on(program.window()["frame"], LEFT), "the window on what is left")
    desk.set_screens(LEFT, RIGHT)


def is_on(frame, screen):
    x, y, width, _ = frame
    return screen[0] <= x + width // 2 <= screen[0] + screen[2] and y >= 0


def test_a_window_remembered_on_a_removed_screen_opens_on_the_other(desk, used_root, tmp_path):
    settings = tmp_path / "ringmaster" / "window.toml"
    settings.parent.mkdir()
    settings.write_text(f"width = 1100\nheight = 760\nposition = [{RIGHT[0] + 40}, 60]\n")
    program = open_program(desk, used_root, tmp_path, "right")
    assert program.window()["frame"][0] == RIGHT[0] + 40
    press_keys(desk, "alt+F4")
    assert program.process.wait(60) == 0, "without the setting, closing ends it"
    desk.set_screens((0, 0, LEFT[2], HEIGHT))
    program = open_program(desk, used_root, tmp_path, "left")
    frame = program.window()["frame"]
    assert is_on(frame, LEFT)
    assert frame[0] + frame[2] <= LEFT[2]
    end_program(program)
    desk.set_screens(LEFT, RIGHT)
