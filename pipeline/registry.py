"""Which stages there are: one file a stage, found by its name and imported only when a job asks for it."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import JobError, near
from pipeline.stage import Stage


@cache
def stage_files() -> dict[str, str]:
    """Stage name to module: a file under stages/ is a stage; third parties add theirs by the entry point pipeline.stages."""
    root = Path(__file__).parent / "stages"
    files = root.rglob("[a-z]*.py")
    own = {file.stem: ".".join(("pipeline", *file.relative_to(root.parent).with_suffix("").parts)) for file in files}
    for entry in entry_points(group="pipeline.stages"):
        if entry.name in own:
            raise JobError(f"stage {entry.name!r} of {entry.value} is already defined in {own[entry.name]}: rename one of them")
        own[entry.name] = entry.value.split(":")[0]
    return own


@cache
def stage_class(name: str) -> type[Stage]:
    """The stage class of that name. Raises JobError, with a near name, where there is none."""
    files = stage_files()
    if name not in files:
        raise JobError(f"there is no stage {name!r}.{near(name, files)}")
    module = importlib.import_module(files[name])
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Stage) and value.name == name and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise JobError(f"{files[name]} must define one stage named {name!r}; it defines {len(found)}")
    return found[0]


def stage_summary(name: str) -> str:
    """First sentence of a stage's docstring, read without importing it."""
    spec = find_spec(stage_files()[name])
    tree = ast.parse(Path(str(spec and spec.origin)).read_text(encoding="utf-8"))
    texts = [
        ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(k.arg == "name" for k in node.keywords)
    ]
    return texts[-1].split("\n")[0] if texts else ""
