"""No file that is read is code: what could run one stands in the two modules that talk to processes of their own, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "pipeline"
UNPICKLING = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "torch"}
PIPES = {PACKAGE / "stages/models/_network/rank.py", PACKAGE / "stages/models/_network/ranks.py"}  # between processes of one training
HARNESS = {PACKAGE / "testing/formats.py"}  # what it has just pickled itself
MODULES = sorted(PACKAGE.rglob("*.py"))


def suspects(tree: ast.AST) -> Iterator[str]:
    """What of a module runs, or reads as code, what it is given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {alias.name}" for alias in node.names if alias.name.split(".")[0] in UNPICKLING)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNPICKLING:
            yield f"from {node.module}"
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in {"eval", "exec", "compile", "os.system", "os.popen", "__import__"}:
                yield name
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            yield from (f"{name} with {key}" for key in ("shell", "allow_pickle") if keywords.get(key, "False") != "False")
            if name == "np.load" and keywords.get("allow_pickle") != "False":
                yield name
            if name.endswith("YAML") and keywords.get("typ") in {"'unsafe'", None}:
                yield name


def test_modules__run_nothing_that_they_read() -> None:
    found = {str(path.relative_to(PACKAGE)): [*suspects(ast.parse(path.read_text(encoding="utf-8")))] for path in MODULES}
    allowed = {str(path.relative_to(PACKAGE)) for path in PIPES | HARNESS}
    assert {name: what for name, what in found.items() if what and name not in allowed} == {}


def test_pickles__are_read_from_pipes_alone() -> None:
    read = [ast.unparse(node) for path in PIPES for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert sorted(call for call in read if call.startswith("pickle.load")) == [
        "pickle.load(process.stdout)",
        "pickle.load(sys.stdin.buffer)",
    ]
