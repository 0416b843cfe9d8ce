"""A report is one file that can be sent: whole, readable, safe, and silent about the cluster."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from backend.base.errors import BackendError
from backend.cli.main import run
from backend.records.base.atomic_files import replace_json
from backend.records.jobs.config import CheckpointPolicy, Optimizer
from backend.records.jobs.history import Block, encode
from backend.records.jobs.placement import Placement
from backend.records.jobs.prediction import Box, Guess, PredictedSample, Prediction
from backend.records.jobs.sample_history import (
    FixedSamples,
    SampleAnswer,
    SampleValidation,
    line,
)
from backend.records.jobs.state import JobState
from backend.records.jobs.status import EvidenceLine, RankError, RunExit, RunStatus
from backend.records.library.preview import SamplePart, SamplePreview
from backend.records.reports.report import Plot
from backend.records.studies.study import FormName, StartedStudy, StudyJob
from backend.records.sweeps.search import COMPLETE, PRUNED, Proposal, Search, StoredSearch
from backend.records.sweeps.values import Axis
from backend.services.context.container import Services, open_services
from backend.services.jobs.prediction import PredictionService
from backend.services.reports import content, html, plots
from tests.backend.services.studies.test_study_service import STUDY
from tests.fakes import trained
from tests.fakes.mounted_root import mounted

LOSSES = [2.0 / (step + 1) for step in range(30)]
HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }} {% raw %}",
    "&lt;b&gt; ]]> -->",
    "名前 😀\u202egnp.exe",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "my ring"


@pytest.fixture
def services(root: Path, tmp_path: Path) -> Iterator[Services]:
    root.mkdir()
    container = open_services(root, tmp_path / "here" / "c.sqlite")
    yield container
    container.close()


class Page(HTMLParser):
    """What a browser makes of a report: tags with attributes, text by tag, and the headings."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._path: list[str] = []
        self.feed(source)
        self.close()
        assert not self._path, f"{self._path} have no end"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self._path.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._path.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._path:
            self.texts[self._path[-1]][-1] += data

    @property
    def text(self) -> str:
        parts = [text for tag, texts in self.texts.items() if tag != "style" for text in texts]
        return "\n".join(parts)


def written(services: Services, path: Path, *names: str, **options: object) -> Page:
    file = services.reports.write(names, path / "report.html", **options)  # type: ignore[arg-type]
    return Page(file.read_text("utf-8"))


def test_the_report_of_a_job_has_its_result_and_how_to_repeat_it(
    services: Services, root: Path, tmp_path: Path
) -> None:
    job_id = trained.job(root, "digits", LOSSES, [0.5, 0.8, 0.9], optimizer=Optimizer("sgd", 0.05))
    services.jobs.annotate(job_id, notes="Rate from the paper")
    page = written(services, tmp_path, "digits")
    assert page.texts["h1"] == ["digits"]
    assert page.texts["h2"] == ["Curves", "Results", "Notes", "Hashes", "How to repeat it"]
    assert page.texts["h3"] == ["Accuracy", "Loss"]
    cells = list(zip(page.texts["th"], page.texts["td"], strict=False))
    assert page.texts["dd"][:2] == ["0.9", "3"]
    assert {"0.9", "0.05", "0" * 64} <= set(page.texts["td"]), cells
    assert "Rate from the paper" in page.texts["pre"]
    assert f"job bundle {job_id} --with-data  # writes digits.ringmaster" in page.text
    assert "step 30" not in page.text  # Its epochs are known.
    assert "epoch 3" in page.text


def test_the_file_stands_alone_and_can_be_read_without_eyes(
    services: Services, root: Path, tmp_path: Path
) -> None:
    job_ids = [trained.job(root, name, LOSSES, [0.5, 0.8]) for name in ("a", "b")]
    page = written(services, tmp_path, *job_ids)
    assert not {"script", "link", "iframe", "object", "a", "form"} & {tag for tag, _ in page.tags}
    assert "http://" not in page.source
    assert "url(" not in page.source
    attributes = [item for _, attrs in page.tags for item in attrs.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name == "href"]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert ("content", policy) in attributes
    assert ("lang", "en") in attributes
    for tag, attrs in page.tags:
        assert tag != "svg" or (attrs["role"], bool(attrs["aria-label"])) == ("img", True)
        assert tag != "img" or attrs["alt"]
        assert tag != "th" or attrs["scope"] in ("row", "col")
    tags = [tag for tag, _ in page.tags]
    assert tags.count("table") == tags.count("caption") >= tags.count("svg")
    assert tags.count("main") == tags.count("h1") == 1
    for words in ("prefers-color-scheme:dark", "@media print", "max-width:600px"):
        assert words in page.source


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_text_of_a_user_stays_text(
    services: Services, root: Path, tmp_path: Path, name: str
) -> None:
    plain_id = trained.job(root, "plain", LOSSES, [0.5])
    plain_page = written(services, tmp_path, plain_id)
    (tmp_path / "report.html").unlink()
    job_id = trained.job(root, name, LOSSES, [0.5])
    services.jobs.annotate(job_id, notes=f"{name}\n" * 3)
    page = written(services, tmp_path, job_id)
    shown_name = name.replace("\u202e", "?")
    assert page.texts["h1"] == [shown_name]
    assert f"{shown_name}\n{shown_name}\n{shown_name}" in page.text
    assert {tag for tag, _ in page.tags} - {"pre"} == {tag for tag, _ in plain_page.tags} - {"pre"}


def test_a_report_of_much_text_and_many_curves_has_less_than_a_megabyte(
    services: Services, root: Path, tmp_path: Path
) -> None:
    names = [f"{'<&>' * 80} {number}" for number in range(8)]
    job_ids = [trained.job(root, name, LOSSES * 40, [0.5] * 100) for name in names]
    for job_id in job_ids:
        services.jobs.annotate(job_id, notes=job_id + "<" * 99_000)
    page = written(services, tmp_path, *job_ids)
    assert len(page.source.encode()) < 1_000_000
    assert len(page.texts["pre"]) == 9


def failed_job(root: Path, services: Services, text: str) -> str:
    """A job that failed with a text in all that its end shows."""
    job_id = trained.job(
        root,
        "failed",
        LOSSES,
        state=JobState.ERROR,
        placement=(Placement("gpu-17", 2),),
        environment={"WANDB_API_KEY": "planted-secret"},
    )
    lines = (EvidenceLine("rank-1.log", 7, f"\x1b[31mreading {text}\x1b[0m"),)
    error = RankError(text, 1, "gpu-17", f"Traceback\n  {text}\nplanted-secret", "", text, lines)
    folder = services.data_root.job(job_id)
    replace_json(folder.attempt(1).exit, RunExit(1, JobState.ERROR, text, error).to_dict())
    services.jobs.annotate(job_id, notes=f"see {text}")
    return job_id


def test_a_sweep_of_failed_jobs_shows_the_first_ones(
    services: Services, root: Path, tmp_path: Path
) -> None:
    job_ids = [failed_job(root, services, "<" * 50_000) for _ in range(20)]
    for job_id in job_ids:
        services.jobs.annotate(job_id, tags=["sweep:bad-abcd"], notes="<" * 50_000)
    page = written(services, tmp_path, "bad-abcd")
    assert sum(title.startswith("What happened: ") for title in page.texts["h2"]) == 8
    assert "20 jobs: 20 failed" in page.text
    assert len(page.source.encode()) < 1_000_000


def test_a_failed_job_shows_its_cause_and_nothing_of_the_cluster(
    services: Services, root: Path, tmp_path: Path
) -> None:
    here = socket.gethostname()
    text = f"cannot open '{root}/datasets/x/train.csv' of jane@10.7.7.7 on gpu-17 or {here}"
    page = written(services, tmp_path, failed_job(root, services, text))
    assert page.texts["h2"][0] == "What happened"
    assert "rank-1.log:7  reading" in page.text
    assert "cannot open '…/datasets/x/train.csv'" in page.text
    assert "node" in page.text
    hidden_texts = (str(root), str(tmp_path), "10.7.7.7", "gpu-17", "planted-secret", "jane@")
    assert not [hidden for hidden in hidden_texts if hidden in page.source]
    shown_page = written(services, tmp_path, "failed", shows_places=True, overwrite=True)
    assert str(root) in shown_page.text
    assert "gpu-17" in shown_page.text
    assert "planted-secret" not in shown_page.source


def test_a_remote_data_root_is_hidden_by_its_paths_and_its_host(
    services: Services, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = type(services.data_root.files)
    monkeypatch.setattr(files, "display_path", lambda _, path: f"storage7:/a b/{path.name}")
    monkeypatch.setattr(files, "on_nodes", lambda _, path: f"/a b/{path.name}")
    job_id = trained.job(root, "digits", LOSSES)
    notes = f"/a b/{root.name}/jobs and storage7:/a b/{root.name} on storage7 or {root}"
    services.jobs.annotate(job_id, notes=notes)
    page = written(services, tmp_path, job_id)
    assert page.texts["pre"][0] == "…/jobs and … on the data root's host or …"
    assert "storage7" not in page.source


def test_a_secret_argument_is_hidden_wherever_it_is(
    services: Services, root: Path, tmp_path: Path
) -> None:
    arguments = ("--api-key", "planted-1", "--max-tokens", "2048", "--out", "/lab/x y")
    settings = {"model": "", "dataset": "", "loader": "", "script": "s", "arguments": arguments}
    job_id = trained.job(root, "script", LOSSES, **settings, environment={"MODE": "train"})
    services.jobs.annotate(job_id, notes="planted-1 and 2048, a training")
    page = written(services, tmp_path, job_id)
    assert "planted-1" not in page.source
    assert "(left out) and 2048, a training" in page.text
    assert page.texts["td"].count("(left out)") == 2
    assert "2048" in page.texts["td"]
    assert "/lab" not in page.source


def test_a_sweep_has_a_row_for_each_job_the_best_first(
    services: Services, root: Path, tmp_path: Path
) -> None:
    job_ids = []
    for number in range(10):
        rate = Optimizer("sgd", 0.01 * (number + 1))
        name = f"digits lr={rate.lr:g}"
        accuracies = [0.5, 0.1 * number]
        tags = ("sweep:rates-abcd",)
        job_ids.append(trained.job(root, name, LOSSES, accuracies, optimizer=rate, tags=tags))
    page = written(services, tmp_path, "rates-abcd")
    assert page.texts["h1"] == ["digits"]
    assert "The curves are those of the best 8 jobs." in page.texts["p"]
    rows = page.texts["th"][page.texts["th"].index("Learning rate") + 1 :]
    assert rows[:3] == ["lr=0.1", "lr=0.09", "lr=0.08"]
    assert page.source.count('class="best"') == 1
    same_page = written(services, tmp_path, *job_ids, overwrite=True)
    assert same_page.texts["h1"] == ["digits"]
    part_page = written(services, tmp_path, *job_ids[:3], overwrite=True)
    assert part_page.texts["h1"] == ["Comparison of 3 jobs"]


@pytest.mark.parametrize(
    ("jobs", "best_job"),
    [
        (((JobState.FINISHED, 0.5), (JobState.FINISHED, 0.9)), "b"),
        (((JobState.FINISHED, None), (JobState.FINISHED, 0.9)), "b"),
        (((JobState.ERROR, 0.5), (JobState.FINISHED, 0.4)), "a"),
        (((JobState.ERROR, 0.5), (JobState.LOST, 0.9)), ""),
        (((JobState.ERROR, None), (JobState.ERROR, None)), ""),
        (((JobState.FINISHED, 0.5), (JobState.FINISHED, 0.5)), ""),
        (((JobState.CREATED, None), (JobState.FINISHED, None)), ""),
    ],
)
def test_a_job_is_the_best_one_if_its_result_is_better(
    services: Services,
    root: Path,
    tmp_path: Path,
    jobs: tuple[tuple[JobState, float | None], ...],
    best_job: str,
) -> None:
    for name, (state, accuracy) in zip("ab", jobs, strict=True):
        is_new = state is JobState.CREATED
        accuracies = [] if accuracy is None else [accuracy]
        trained.job(root, name, [] if is_new else LOSSES[:10], accuracies, state)
    page = written(services, tmp_path, "a", "b")
    figures = dict(zip(page.texts.get("dt", []), page.texts.get("dd", []), strict=True))
    assert figures.get("Best job", "") == best_job


def test_jobs_with_different_metrics_have_no_best_one(
    services: Services, root: Path, tmp_path: Path
) -> None:
    policies = (CheckpointPolicy(best_metric="loss", best_mode="min"), trained.CONFIG.checkpoint)
    for name, policy in zip("ab", policies, strict=True):
        trained.job(root, name, LOSSES, [0.5, 0.8], checkpoint=policy, tags=("sweep:mixed-abcd",))
    page = written(services, tmp_path, "mixed-abcd")
    assert "Best job" not in page.texts.get("dt", [])
    assert {"Best training loss", "Best validation accuracy"} <= {*page.texts["th"]}


def test_a_search_shows_the_best_by_its_goal_and_why_trials_were_given_up(
    services: Services, root: Path, tmp_path: Path
) -> None:
    tag, axis = "sweep:lr-abcd", Axis("optimizer.lr", (0.1, 0.2, 0.3))
    ends = ((COMPLETE, 0.4, ""), (PRUNED, 0.2, "above the median at epoch 1"), (COMPLETE, 0.3, ""))
    job_ids = []
    for number, (state, value, reason) in enumerate(ends, 1):
        name = f"digits trial {number}"
        notes, tags = "The same for all.", (tag,)
        job_id = trained.job(root, name, LOSSES[:10], [1 - value], notes=notes, tags=tags)
        values = {"optimizer.lr": 0.1 * number}
        trial = Proposal(job_id, number, values, state, value, reason)
        replace_json(services.data_root.job(job_id).proposal, trial.to_dict())
        job_ids.append(job_id)
    stored = StoredSearch(tag, "n", 1, Search("LOSS"), (axis,), tuple(job_ids))
    folder = root / "searches" / "lr-abcd"
    folder.mkdir(parents=True)
    replace_json(folder / "search.json", stored.to_dict())
    page = written(services, tmp_path, "lr-abcd")
    assert page.texts["dd"][:2] == ["trial 3", "0.3"]
    assert page.texts["h2"].count("Notes") == 1
    (text,) = [text for text in page.texts["p"] if text.startswith("The goal is")]
    assert text.startswith("The goal is the training loss; lower is better. TPE, 30 trials: 2 fin")
    assert "Finished trials that the importance still needs: 6." in page.texts["p"]
    assert {"given up", "above the median at epoch 1"} <= {*page.texts["td"]}


def test_a_study_has_its_table_also_when_jobs_were_removed(
    services: Services, root: Path, tmp_path: Path
) -> None:
    job_ids = [trained.job(root, f"Rates · {row}", LOSSES, [0.5]) for row in ("slow", "fast")]
    jobs = tuple(StudyJob(i, row, 1) for i, row in zip(job_ids, ("slow", "fast"), strict=True))
    study = StartedStudy("Rates-abcd", FormName.SMALL, tomli_w.dumps(STUDY), jobs)
    (root / "studies").mkdir()
    replace_json(root / "studies" / "Rates-abcd.json", study.to_dict())
    page = written(services, tmp_path, "rates")
    assert page.texts["h1"] == ["Rates"]
    assert "Which rate?" in page.texts["p"]
    assert {"slow", "fast", "3.50"} <= {*page.texts["th"], *page.texts["td"]}
    services.jobs.remove(job_ids[0])
    page = written(services, tmp_path, "Rates-abcd", overwrite=True)
    assert "1 of its 2 jobs were removed." in page.texts["p"]
    services.jobs.remove(job_ids[1])
    page = written(services, tmp_path, "Rates-abcd", overwrite=True)
    assert "2 of its 2 jobs were removed." in page.texts["p"]


def test_chosen_samples_are_shown_with_their_predictions(
    services: Services, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = trained.job(root, "digits", LOSSES, [0.5])
    pictures = [SamplePart("data", (1, 8, 8), "uint8", "image", png=png) for png in ("iVBO", '">')]
    samples = [SamplePreview(n, (part,), "cat") for n, part in enumerate(pictures)]
    guesses = (Guess("dog", 0.9), Guess("<b>", 0.1), Guess("cow", 0.001))
    box, no_box = Box("dog", 0.9, (0.1, 0.2, 0.5, 2.0)), Box("dog", 0.9, (0.1,))
    boxes = (box, no_box)
    examples = tuple(PredictedSample(s, "dog", guesses, boxes, truth=boxes) for s in samples)
    prediction = Prediction("classes", 2, examples=examples, notes=("A note.",))
    asked = []

    def predict(*arguments: object) -> Prediction:
        asked.append(arguments[:3])
        return prediction

    monkeypatch.setattr(services.predictions, "predict", predict)
    page = written(services, tmp_path, job_id, samples="0-1", checkpoint="latest")
    assert asked[0][:2] == (job_id, "latest")
    assert page.texts["h2"][2] == "Predictions of the checkpoint “latest”"
    captions = [text for text in page.texts["figcaption"] if text.startswith("Sample")]
    assert captions == [f"Sample {n}: dog (90%), <b> (10%); target cat" for n in (0, 1)]
    assert [attrs["src"] for tag, attrs in page.tags if tag == "img"] == [
        "data:image/png;base64,iVBO"
    ]
    frames = [attrs["d"] for tag, attrs in page.tags if tag == "path" and "Z" in (attrs["d"] or "")]
    assert frames == ["M0.1000 0.2000H0.5000V1.0000H0.1000Z"] * 2


def test_the_fixed_samples_are_shown_at_the_first_the_middle_and_the_last_validation(
    services: Services, root: Path, tmp_path: Path
) -> None:
    job_id = trained.job(root, "digits", LOSSES, [0.5, 0.8, 0.9])
    picture = SamplePart("data", (8, 8), "float32", "image", png="iVBORw0KGgo=")
    sample = PredictedSample(SamplePreview(7, (picture,), "<cat>"), "")
    lines = [
        SampleValidation(step, step, (SampleAnswer((Guess(name, 0.5),)),))
        for step, name in enumerate(("dog", "dog", "<cat>", "dog", "<cat>"), 1)
    ]
    path = services.data_root.job(job_id).samples
    path.write_bytes(b"".join(map(line, (FixedSamples((sample,)), *lines))))
    text = written(services, tmp_path, job_id).source
    section = text.partition("<h2>Samples over time</h2>")[2].partition("</section>")[0]
    assert re.findall("Epoch \\d", section) == ["Epoch 1", "Epoch 3", "Epoch 5"]
    cells = re.findall('class="(best|wrong)">(.)', section)
    assert cells == [("wrong", "✗"), ("best", "✓"), ("best", "✓")]
    assert "iVBORw0KGgo=" in section
    assert "<cat>" not in section


def test_a_pdf_has_the_text_and_an_image_of_each_curve(
    services: Services, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = trained.job(root, "digits", LOSSES, [0.5, 0.8, 0.9])
    path = services.reports.write([job_id], tmp_path / "r.PDF")
    pdf = path.read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert pdf.count(b"/Subtype /Image") == 2
    assert pdf.count(b"/Type /Font\n") >= 1
    monkeypatch.setattr(html.sys, "executable", "/bin/false")
    with pytest.raises(BackendError, match="Qt could not print"):
        services.reports.write([job_id], tmp_path / "s.pdf")
    assert not (tmp_path / "s.pdf").exists()


@pytest.mark.parametrize(
    ("samples", "checkpoint", "message"),
    [
        ("abc", "best", "“abc” is no number of a sample, and no range. Write numbers and ranges"),
        ("10-3", "best", "“10-3” is no number of a sample"),
        ("0", "epoch-9999", "has no checkpoint “epoch-9999”"),
        ("99999", "best", "There is no sample 99,999"),
    ],
)
def test_predictions_that_a_job_does_not_have_are_refused_and_of_several_jobs_noted(
    services: Services,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    samples: str,
    checkpoint: str,
    message: str,
) -> None:
    def refuse(*_: object) -> Prediction:
        raise BackendError("There is no sample 99,999: the validation data has 10.")

    if samples == "99999":
        monkeypatch.setattr(PredictionService, "predict", refuse)
    for name in ("digits", "letters"):
        trained.job(root, name, LOSSES)
    target = tmp_path / "out.html"
    arguments = ["--data-root", str(root), "--catalogue", str(tmp_path / "c.sqlite"), "report"]
    arguments += ["-o", str(target), "--samples", samples, "--checkpoint", checkpoint]
    assert run([*arguments, "digits"], lambda *_: 0) == 1
    assert message in capsys.readouterr().err
    assert not target.exists()
    is_readable = samples in ("0", "99999")
    assert run([*arguments, "digits", "letters"], lambda *_: 0) == int(not is_readable)
    error_text = capsys.readouterr().err
    assert error_text.count(message) == (2 if is_readable else 1)
    assert not is_readable or "letters: " in error_text
    assert target.exists() == is_readable


def script_job(root: Path, epochs: list[int], **status: object) -> str:
    """A job whose script reported a loss at each step, with its epoch, 0 if it has none."""
    settings = {"model": "", "dataset": "", "loader": "", "script": "s", "epochs": 0}
    job_id = trained.job(root, "script", [], **settings)
    folder = mounted(root).job(job_id)
    blocks = [
        Block("TRAINING", 1, epoch, 0, step, f"2026-11-21T07:00:{step:02}Z", {"loss": [1 / step]})
        for step, epoch in enumerate(epochs, 1)
    ]
    folder.history.write_bytes(b"".join(map(encode, blocks)))
    finished = RunStatus(JobState.FINISHED, run=1, step=len(epochs))
    replace_json(folder.status, replace(finished, **status).to_dict())  # type: ignore[arg-type]
    return job_id


@pytest.mark.parametrize(
    ("epochs", "label"),
    [([0] * 5, "step 5"), ([0, 0, 1, 1, 2], "step 5"), ([1, 1, 2, 2, 3], "step 5")],
)
def test_the_curves_of_a_script_are_over_steps(
    services: Services, root: Path, tmp_path: Path, epochs: list[int], label: str
) -> None:
    page = written(services, tmp_path, script_job(root, epochs))
    assert page.texts["h3"][0].startswith("Loss")
    assert label in page.text


def test_a_curve_that_cannot_be_drawn_leaves_the_others(
    services: Services, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_other(title: str, *arguments: Any, **options: Any) -> Plot:
        if title == "Loss":
            raise ZeroDivisionError
        return plots.draw(title, *arguments, **options)

    monkeypatch.setattr(content, "draw", draw_other)
    page = written(services, tmp_path, trained.job(root, "digits", LOSSES, [0.5, 0.8]))
    assert page.texts["h3"] == ["Accuracy"]
    assert "The curve “Loss” could not be drawn." in page.texts["p"]


def test_a_job_without_curves_says_why(services: Services, root: Path, tmp_path: Path) -> None:
    draft = trained.job(root, "draft", state=JobState.CREATED)
    page = written(services, tmp_path, draft)
    assert "The job has not run yet, so there are no curves." in page.texts["p"]
    job_id = trained.job(root, "digits", LOSSES, [0.5])
    history = services.data_root.job(job_id).history
    history.write_bytes(history.read_bytes()[:-30])
    cut_page = written(services, tmp_path, job_id, overwrite=True)
    assert "Loss" in cut_page.texts["h3"]
    history.unlink()
    page = written(services, tmp_path, job_id, draft, overwrite=True)
    assert "digits has no curves: its history is missing, or has no step." in page.texts["p"]
    assert "draft has not run yet, so there are no curves." in page.texts["p"]


def test_what_cannot_be_written_is_one_sentence_and_changes_nothing(
    services: Services, root: Path, tmp_path: Path
) -> None:
    trained.job(root, "digits", LOSSES)
    trained.job(root, "a", LOSSES, tags=("sweep:rates-abcd",))
    target = tmp_path / "report.html"
    target.write_text("mine")
    (tmp_path / "folder.html").mkdir()
    for names, path, message in (
        (["digits"], target, "exists already and was not changed.*--overwrite"),
        (["digits"], tmp_path / "folder.html", "is a folder. Write the name of a file"),
        (["digits", "rates-abcd"], tmp_path / "r.html", "“rates-abcd” is a sweep, and a sweep has"),
        (["rates-abcd", "digits"], tmp_path / "r.html", "Name only the sweep, or only jobs"),
        (["digits"], tmp_path / "no" / "r.html", "does not exist"),
        (["digits"], Path("/proc/report.html"), "could not be written"),
        (["other"], tmp_path / "r.html", "There is no job “other”"),
        (["digits"], tmp_path / "r.xyz", "ends in .html or .pdf, not as r.xyz"),
        (["digits", "digits"], tmp_path / "r.html", "compares 2 to 8 jobs, not 1"),
    ):
        with pytest.raises(BackendError) as refusal:
            services.reports.write(names, path)
        assert re.search(message, refusal.value.with_remedy)
    assert target.read_text() == "mine"
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("--overwrite", "overwrite.html"),
        ("- -rf /", "rf -.html"),
        ("<b>", "b-.html"),
        ("---", "job.html"),
        ("a-b", "a-b.html"),
    ],
)
def test_a_file_is_not_named_like_an_option(
    services: Services,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    file_name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = services.reports.write([trained.job(root, name, LOSSES)])
    assert path.name == file_name


def test_the_command_writes_the_file_and_says_what_is_hidden(
    services: Services, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained.job(root, "digits", LOSSES)
    arguments = ["--data-root", str(root), "--catalogue", str(tmp_path / "c.sqlite"), "report"]
    target = tmp_path / "out.html"
    assert run([*arguments, "digits", "-o", str(target)], lambda *_: 0) == 0
    assert "--with-places" in capsys.readouterr().err
    assert run([*arguments, "digits", "--output", str(target)], lambda *_: 0) == 1
    assert "exists already" in capsys.readouterr().err
    assert run([*arguments, "digits", "--checkpoint", "best"], lambda *_: 0) == 1
    assert "--checkpoint has no effect without --samples." in capsys.readouterr().err
    assert (
        run([*arguments, "digits", "-o", str(target), "--overwrite", "--json"], lambda *_: 0) == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document == {"path": str(target), "bytes": target.stat().st_size}
    assert run([*arguments, "digits", "-o", "-"], lambda *_: 0) == 0
    assert Page(capsys.readouterr().out).texts["h1"] == ["digits"]
