"""Who may import whom; the contracts stand in pyproject.toml."""

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports


def test_import_contracts_are_kept() -> None:
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS
