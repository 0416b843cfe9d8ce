"""Templates: saved, listed, loaded, renamed and removed by name, in the window's service and the
command line alike; a damaged one is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.cli.main import run
from backend.records.base.number_format import count
from backend.records.jobs.placement import Placement
from backend.records.sweeps.spec import Sweep, read_sweep, sweep_file
from backend.records.sweeps.values import Axis, ValueRange
from backend.services.context.container import Services
from backend.services.jobs.job_file import TemplateService, read_job_file
from tests.backend.services.sweeps.test_sweep_service import paths, services
from tests.integration.tiny import raw_job

__all__ = ["paths", "services"]


@pytest.fixture
def templates(services: Services) -> TemplateService:
    return services.templates


def files(services: Services) -> list[str]:
    return sorted(path.name for path in services.data_root.templates.glob("*"))


def test_settings_come_back_as_they_were_saved_without_the_name_of_the_job(
    templates: TemplateService,
) -> None:
    raw = raw_job(2, early_stop={"patience_epochs": 3}, tags=["night"])
    template = templates.save("Night run", raw)
    assert template.description == "tiny · sgd 0.05 · 4 epochs"
    assert template.path.endswith("templates/Night run.toml")
    loaded = templates.load("Night run")
    assert loaded == {key: value for key, value in raw.items() if key != "name"}


def test_a_template_does_not_copy_the_permission_to_share_gpus(
    templates: TemplateService,
) -> None:
    placement = {"node": "gpu01", "gpus": ["GPU-1", "GPU-2"]}
    templates.save("shared", raw_job(placement=[{**placement, "beside": {"GPU-1": "alice"}}]))
    assert templates.load("shared")["placement"] == [placement]


def test_a_replay_does_not_copy_the_permission_to_share_gpus(services: Services) -> None:
    job = services.jobs.create(raw_job())
    placement = Placement("gpu01", gpus=("GPU-1", "GPU-2"), shared_gpus=(("GPU-1", "alice"),))
    draft = services.replays.draft(job.id, (placement,))
    assert draft["placement"] == [{"node": "gpu01", "gpus": ["GPU-1", "GPU-2"]}]


def test_a_template_is_overwritten_only_on_request(
    templates: TemplateService, services: Services
) -> None:
    templates.save("night", raw_job(1))
    with pytest.raises(
        BackendError, match="The template “night” exists already and was not changed"
    ):
        templates.save("night", raw_job(1, epochs=9))
    assert templates.load("night")["epochs"] == 4
    templates.save("night", raw_job(1, epochs=9), overwrite=True)
    assert templates.load("night")["epochs"] == 9
    templates.save("day", raw_job(1))
    with pytest.raises(BackendError, match="“day” exists already"):
        templates.rename("night", "day")
    assert files(services) == ["day.toml", "night.toml"]


def test_a_template_is_renamed_and_removed_by_name_and_lies_in_the_trash(
    templates: TemplateService, services: Services
) -> None:
    templates.save("night", raw_job(1))
    templates.rename("night", "Nacht")
    assert [t.name for t in templates.list()] == ["Nacht"]
    templates.remove("Nacht")
    assert templates.list() == ()
    trash = services.data_root.trash / "templates"
    assert [path.name for path in trash.iterdir()] == ["Nacht.toml"]
    templates.save("Nacht", raw_job(1, epochs=7))
    templates.remove("Nacht")
    assert len(list(trash.iterdir())) == 2, "the one before stays"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_job_file_that_notepad_saved_is_read(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xef\xbb\xbf" + end.join((b'name = "n"', b"epochs = 2", b"")))
    assert read_job_file(path) == {"name": "n", "epochs": 2}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"epochs = \n", "line 1: invalid value"),
        (b"name = '\xff'\n", "line 1: a byte is not UTF-8."),
        (
            b"x = 1\n" * 200_000,
            f"is larger than {count(1_000_000)} bytes, so it is not a job file.",
        ),
    ],
    ids=["toml", "bytes", "size"],
)
def test_a_damaged_template_is_one_sentence_and_hides_no_other(
    templates: TemplateService, services: Services, content: bytes, message: str
) -> None:
    templates.save("night", raw_job(1))
    (services.data_root.templates / "bad.toml").write_bytes(content)
    with pytest.raises(BackendError) as caught:
        templates.load("bad")
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    bad, night = templates.list()
    assert (bad.name, bad.description, night.error) == ("bad", "", "")
    assert message in bad.error
    assert templates.remove("bad").name == "bad"


@pytest.mark.parametrize("name", ["", "../night", "a/b", ".hidden", "CON", "x\ny"])
def test_a_name_that_cannot_be_a_file_is_refused(
    templates: TemplateService, services: Services, name: str
) -> None:
    with pytest.raises(BackendError):
        templates.save(name, raw_job(1))
    with pytest.raises(BackendError):
        templates.load(name)
    assert files(services) == []


def test_a_missing_template_is_named_with_the_nearest_one(templates: TemplateService) -> None:
    templates.save("night run", raw_job(1))
    with pytest.raises(BackendError) as caught:
        templates.load("nightrun")
    assert str(caught.value) == "There is no template “nightrun”."
    assert caught.value.remedy == "Did you mean “night run”?"


def test_a_sweep_can_be_a_template_and_a_file_and_is_read_as_it_was(
    templates: TemplateService,
) -> None:
    axes = (
        Axis("batch_size", (8, 16)),
        Axis("optimizer.lr", span=ValueRange(1e-4, 0.1, 0, "log")),
        Axis("stop_on_nan", (True, False)),
    )
    sweep = Sweep(raw_job(1), axes, draws=5, seed=3)
    assert read_sweep(sweep_file(sweep)) == (sweep, ())
    templates.save("search", sweep_file(sweep))
    reread, errors = read_sweep({**templates.load("search"), "name": "tiny"})
    assert errors == ()
    assert reread == sweep
    assert "sweep" not in sweep_file(Sweep(raw_job(1), ()))


def test_the_command_line_saves_lists_and_makes_a_job_of_a_template(
    services: Services,
    paths: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run_command(*arguments: str) -> tuple[int, object]:
        argv = [*arguments, "--data-root", str(paths[0]), "--catalogue", str(paths[1]), "--json"]
        code = run(argv, lambda *_: 0)
        return code, json.loads(capsys.readouterr().out)

    job = services.jobs.create(raw_job(1, epochs=7))
    code, saved = run_command("template", "save", "night", job.id)
    assert (code, saved["name"]) == (0, "night")
    code, templates = run_command("template", "list")
    assert [t["sentence"] for t in templates] == ["tiny@1 · sgd 0.05 · 7 epochs"]
    code, created = run_command("job", "create", "--template", "night", "--name", "first night")
    assert (code, created["name"], created["epochs"]) == (0, "first night", 7)
    assert run_command("template", "rename", "night", "day")[0] == 0
    code, refusal = run_command("template", "save", "day", job.id)
    assert (code, "already" in refusal["error"]["sentence"]) == (1, True)
    assert run_command("template", "save", "day", job.id, "--replace")[0] == 0
    assert run_command("template", "remove", "day")[0] == 0
    assert run_command("template", "list")[1] == []
