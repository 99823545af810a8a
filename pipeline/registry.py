"""What is found by its name: a file of a folder of ours, or what another package registers, imported only when a job asks for it.

One file a stage under stages/, one a format under formats/; a file or folder whose name begins with _ helps others. A class belongs to the
file that defines it and to the name that it states. Other packages add theirs by an entry point: `filter_more = acme.filter_more`.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoints
from importlib.metadata import entry_points as read_entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from pipeline.errors import JobError, near
from pipeline.format import InputFormat, OutputFormat
from pipeline.stage import Stage

T = TypeVar("T")
F = TypeVar("F", InputFormat, OutputFormat)


def entry_points(group: str) -> EntryPoints:
    """Those that installed packages have in a group; read once, from the files of all packages."""
    found: EntryPoints = _entry_points().select(group=group)
    return found


@cache
def _entry_points() -> Any:
    return read_entry_points()


@dataclass(frozen=True)
class Registry:
    """Things of one kind: `kind` is the word for one of them, `package` the folder of ours, `group` the entry points of other packages."""

    kind: str
    package: str
    group: str

    @cached_property
    def modules(self) -> Mapping[str, str]:
        """Name to module; nothing is imported. Raises JobError where two modules have one name, ours or not."""
        found: dict[str, str] = {}
        for name, module in (*self.own, *((entry.name, entry.module) for entry in entry_points(group=self.group))):
            if found.setdefault(name, module) != module:
                raise JobError(f"{self.kind} {name!r} of {module} is already defined in {found[name]}: rename one of them")
        return MappingProxyType(found)

    @cached_property
    def own(self) -> list[tuple[str, str]]:
        """Name and module of each that is a file of ours."""
        root = Path(__file__).parents[1].joinpath(*self.package.split("."))
        files = [file.relative_to(root).with_suffix("") for file in sorted(root.rglob("*.py"))]
        return [(file.name, ".".join((self.package, *file.parts))) for file in files if not any(part[0] in "_." for part in file.parts)]

    def module(self, name: str) -> ModuleType:
        """The module of that name, imported. Raises JobError where there is none (with a near name), or where it cannot be imported."""
        try:
            return importlib.import_module(self._place(name))
        except (ImportError, SyntaxError) as error:
            raise self._unusable(name, error) from error

    def classes(self, name: str, base: type[T]) -> list[type[T]]:
        """The classes of a base which the module of that name defines itself: those that it imports are not its own."""
        module = self.module(name)
        found = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
        return [value for value in dict.fromkeys(found) if issubclass(value, base)]

    def defined(self, name: str, base: type[T]) -> list[type[T]]:
        """Those of them that state the name as theirs."""
        return [found for found in self.classes(name, base) if getattr(found, "name", "") == name]

    def one(self, name: str, base: type[T]) -> type[T]:
        """The class of that name and base. Raises JobError where there is no such module, or where it does not define just one."""
        found = self.defined(name, base)
        if len(found) != 1:
            raise JobError(f"{self.modules[name]} must define one {self.kind} named {name!r}; it defines {len(found)}")
        return found[0]

    def summary(self, name: str) -> str:
        """First line of the docstring of the class that states the name, read without importing its module; '' where there is none."""
        tree = ast.parse(self._source(name).read_text(encoding="utf-8"))
        texts = [ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.ClassDef) and _states(node, name)]
        return texts[0].split("\n")[0] if texts else ""

    def _source(self, name: str) -> Path:
        try:
            spec = find_spec(self._place(name))
        except ImportError as error:
            raise self._unusable(name, error) from error
        if spec is None or spec.origin is None:
            raise self._unusable(name, f"no module named {self.modules[name]!r}")
        return Path(spec.origin)

    def _unusable(self, name: str, reason: object) -> JobError:
        text = (
            f"{self.kind} {name!r} of {self.modules[name]} cannot be imported: {reason}. Install what it needs, or take its package away."
        )
        return JobError(text)

    def _place(self, name: str) -> str:
        if name not in self.modules:
            raise JobError(f"there is no {self.kind} {name!r}.{near(name, self.modules)}")
        return self.modules[name]


def _states(node: ast.ClassDef, name: str) -> bool:
    return any(key.arg == "name" and isinstance(key.value, ast.Constant) and key.value.value == name for key in node.keywords)


STAGES = Registry("stage", "pipeline.stages", "pipeline.stages")
FORMATS = Registry("format", "pipeline.formats", "pipeline.formats")


def stage_class(name: str) -> type[Stage]:
    """The stage class of that name. Raises JobError, with a near name, where there is none."""
    return STAGES.one(name, Stage)


def stages_of(base: type[Stage]) -> list[str]:
    """Names of our own stages of a base, in order; all modules of stages are imported for it."""
    return [name for name, _ in sorted(STAGES.own) if STAGES.defined(name, base)]


def format_class(name: str, side: type[F]) -> type[F]:
    """The class that reads (InputFormat) or writes (OutputFormat) a format. Raises JobError, with a near name, where there is none."""
    if found := format_side(name, side):
        return found
    verb = "read" if side is InputFormat else "written"
    able = sorted(other for other in FORMATS.modules if format_side(other, side))
    raise JobError(f"format {name!r} cannot be {verb}. Formats that can: {', '.join(able)}.")


def format_side(name: str, side: type[F]) -> type[F] | None:
    """The format's class of that side; None where it has none. Raises JobError where it has several, or where the name has no class."""
    found = FORMATS.defined(name, side)
    if len(found) > 1:
        raise JobError(f"{FORMATS.modules[name]} must define one {side.__name__} named {name!r}; it defines {len(found)}")
    if not found and not any(FORMATS.defined(name, other) for other in (InputFormat, OutputFormat)):
        raise JobError(f"{FORMATS.modules[name]} must define an InputFormat or an OutputFormat with name = {name!r}; it defines none")
    return found[0] if found else None
