"""Who may import whom; the contracts stand in pyproject.toml."""

import ast
from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports


def test_import_contracts_are_kept() -> None:
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS


_TREES = ("app", "backend", "widgets")
_FAILURES = {"OSError", "Exception", "BaseException", "BackendError", "RuntimeError"}


def test_no_failure_of_the_world_is_swallowed_in_silence() -> None:
    """Each handler raises, uses or logs the error, or a comment says why it need not."""
    root = Path(__file__).resolve().parents[1]
    silent: list[str] = []
    for path in (path for tree in _TREES for path in (root / tree).rglob("*.py")):
        text = path.read_text("utf-8")
        # A file that is sent to nodes by itself has no log.
        if "from backend" in text:
            lines = text.splitlines()
            silent += [
                f"{path.relative_to(root)}:{handler.lineno}"
                for handler in ast.walk(ast.parse(text))
                if isinstance(handler, ast.ExceptHandler) and _is_silent(handler, lines)
            ]
    assert silent == []


def _is_silent(handler: ast.ExceptHandler, lines: list[str]) -> bool:
    caught = {node.id for node in ast.walk(handler.type or handler) if isinstance(node, ast.Name)}
    if handler.type is not None and not caught & _FAILURES:
        return False
    body = [node for part in handler.body for node in ast.walk(part)]
    return not (
        any(isinstance(node, ast.Name) and node.id == handler.name for node in body)
        or any(isinstance(node, ast.Raise) for node in body)
        or "log." in ast.unparse(handler)
        or any("#" in line for line in lines[handler.lineno - 1 : handler.end_lineno])
    )
