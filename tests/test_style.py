"""How long a file and a function may be: the limits of CONTRIBUTING.md that no linter counts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE_LINES, FUNCTION_LINES = 250, 40


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """Path and text of every Python file under these folders."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements within one, at any depth; what is an expression has none."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        within = getattr(node, name, None)
        for one in within if isinstance(within, list) else ():
            yield one
            yield from statements(one)


def long_functions(name: str, text: str) -> Iterator[str]:
    """The functions of a file that are too long, decorators left out."""
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines"


def test_modules__have_at_most_250_lines() -> None:
    long = [f"{name} has {lines} lines" for name, text in sources("pipeline") if (lines := text.count("\n")) > MODULE_LINES]
    assert not long, f"which second thing does it do? Move that out: {long}"


@pytest.mark.parametrize("folder", ["pipeline", "tests", "benchmarks", "data"])
def test_functions__have_at_most_40_lines(folder: str) -> None:
    long = [found for name, text in sources(folder) for found in long_functions(name, text)]
    assert not long, f"which part has a name of its own? {long}"


def test_long_functions__are_found_with_their_place() -> None:
    body = "    x = 1\n" * 40
    assert list(long_functions("a.py", f"def short():\n{body[:-10]}\n\nasync def long():\n{body}")) == ["a.py:43: long has 41 lines"]
