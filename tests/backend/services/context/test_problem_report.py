"""A report for those who help: what happened, and none of what is secret."""

import zipfile
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.library.item import Kind
from backend.records.nodes.reading import Finding
from backend.services.context.container import open_services
from backend.services.context.problem_report import write_report
from tests.integration.tiny import raw_job, write_sources

pytest_plugins = ["tests.backend.services.access_fixtures"]

SECRETS = {
    "WANDB_API_KEY": "planted-key-1",
    "MY_PASSWORD": 'planted "pass" ß',
    "AUTH_TOKEN": "t0ken",
}


@pytest.fixture
def services(tmp_path, uncounted):
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    model, loader, dataset = write_sources(tmp_path / "sources")
    for kind, source in ((Kind.MODEL, model), (Kind.LOADER, loader), (Kind.DATASET, dataset)):
        services.library.import_item(kind, source, "tiny")
    yield services
    services.close()


def parts(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_f60_a_report_shows_the_events_and_holds_no_secret(services, tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    finding = Finding("python", False, f"planted-key-1 is at {Path.home()}.")
    monkeypatch.setattr(services.nodes, "doctor", lambda: [finding])
    services.jobs.create(raw_job(environment={"HARMLESS_NAME": "planted-in-job"}))
    log = tmp_path / "window.log"
    lines = [*SECRETS.values(), "planted-in-job", f"opened {Path.home()}/data", "the end"]
    log.write_text("\n".join(lines))
    report_parts = parts(write_report(services, tmp_path / "report.zip", log))
    assert set(report_parts) == {"versions.json", "checks.json", "jobs.json", "window.log"}
    report_text = "\n".join(report_parts.values())
    for secret in (*SECRETS.values(), "planted-in-job"):
        assert secret not in report_text
    assert str(Path.home()) not in report_text
    assert "is at ~." in report_parts["checks.json"]
    assert "the end" in report_parts["window.log"]
    assert '"state": "CREATED"' in report_parts["jobs.json"]
    assert '"ringmaster"' in report_parts["versions.json"]


def test_a_report_that_cannot_be_written_raises_an_error(services, tmp_path):
    with pytest.raises(BackendError, match="could not be written"):
        write_report(services, tmp_path / "gone" / "report.zip", tmp_path / "no.log")
