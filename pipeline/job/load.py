"""Job file -> Job: YAML, overrides, environment, then every name and every parameter checked; all problems in one JobError.

Each problem says where it stands (file:line:column, or the override it came from), which key it is, what is wrong and what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipeline.errors import JobError
from pipeline.format import InputFormat, OutputFormat
from pipeline.job.environment import fill_environment, masked
from pipeline.job.links import Reading, check_cycles, check_tables, read_roles
from pipeline.job.override import apply_overrides, stage_name
from pipeline.job.spec import Input, Job, JobSettings, Output, OutputKeys, StageSpec, stage_parameters
from pipeline.job.wording import Subject, check_name, check_numbers, report
from pipeline.job.yaml_text import read_file, read_yaml
from pipeline.job.yaml_tree import Node, Problems, found_text
from pipeline.registry import FORMATS, format_class, stage_class, stages_of
from pipeline.stage import Stage
from pipeline.tables.names import Order

SECTIONS = ("inputs", "stages", "outputs")
STAGE_KEYS = ("use", "from", "as", "checkpoint")
OUTPUT_KEYS = ("from", "sort_by", "columns", "format", "append")
RESERVED = {"models": "the models of a run"}

Model = TypeVar("Model", bound=BaseModel)


def load(path: str | Path, overrides: Mapping[str, Any] | Sequence[str] = ()) -> Job:
    """The job of a file, with `overrides`: texts KEY=VALUE as --set takes them, or a mapping of such keys to values.

    Raises JobError with every problem of the file.
    """
    return load_text(read_file(Path(path)), str(path), overrides)


def load_text(text: str, path: str = "job.yaml", overrides: Mapping[str, Any] | Sequence[str] = ()) -> Job:
    """The job of a YAML text; `path` is what messages call it. Raises JobError with every problem."""
    problems = Problems(path)
    root = read_yaml(text, problems)
    if root is None or not isinstance(root.value, dict):
        problems.check()
        found = "nothing" if root is None else found_text(root.value)
        raise JobError(f"{path}: a job file is a mapping with the keys job, inputs, stages and outputs; found {found}")
    apply_overrides(root, overrides, problems)
    fill_environment(root, problems)
    return _Loader(root, problems).job()


class _Loader:
    """Checks one tree from top to bottom; problems gather, and what is sound becomes the job."""

    def __init__(self, root: Node, problems: Problems) -> None:
        self.root = root
        self.problems = problems
        self.readings: list[Reading] = []

    def job(self) -> Job:
        """The job. Raises JobError where there was any problem."""
        settings = self._settings()
        inputs = [self._input(name, node) for name, node in self._named("inputs", needed=True)]
        stages = [self._stage(index, node) for index, node in self._stage_nodes()]
        outputs = [self._output(name, node) for name, node in self._named("outputs")]
        unique = self._unique_names()
        check_tables(self.readings, self._table_names(), self.problems)
        if unique:  # a name given twice makes circles that are none
            check_cycles(self.readings, self.problems)
        self.problems.check()
        parts = {
            "inputs": {entry.name: entry for entry in inputs if entry},
            "stages": tuple(stage for stage in stages if stage),
            "outputs": {output.name: output for output in outputs if output},
        }
        return Job.model_validate({**settings, **parts, "path": self.problems.path, "raw": masked(self.root)})

    def _settings(self) -> dict[str, Any]:
        subject = Subject(JobSettings, self.root, "", "a job", SECTIONS)
        self._validated(subject, SECTIONS)
        return {key: node.data() for key, node in self.root.children() if key not in SECTIONS}

    def _named(self, section: str, *, needed: bool = False) -> list[tuple[str, Node]]:
        """Names and entries of inputs or outputs."""
        node = self.root.child(section)
        if node is None or (node.value is None and not needed):
            if needed:
                self.problems.add(self.root.place, "", f"missing: {section} (mapping of name to what it is)")
            return []
        if not isinstance(node.value, dict) or (needed and not node.value):
            self.problems.add(node.place, section, f"expected a mapping of name to what it is, found {found_text(node.value)}")
            return []
        for name in node.value:
            check_name(name, node.keys[name], f"{section}.{name}", self.problems)
        return [(name, child) for name, child in node.children() if self._is_mapping(child, f"{section}.{name}")]

    def _stage_nodes(self) -> list[tuple[str, Node]]:
        node = self.root.child("stages")
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, list):
            self.problems.add(
                node.place, "stages", f"expected a list of stages, each with `use` and `from`, found {found_text(node.value)}"
            )
            return []
        return [(index, child) for index, child in node.children() if self._is_mapping(child, f"stages.{index}")]

    def _is_mapping(self, node: Node, key: str) -> bool:
        if not isinstance(node.value, dict):
            self.problems.add(node.place, key, f"expected a mapping, found {found_text(node.value)}")
        return isinstance(node.value, dict)

    def _input(self, name: str, node: Node) -> Input | None:
        key = f"inputs.{name}"
        use = self._text(node, "format", key, f"one of {', '.join(sorted(FORMATS.modules))}")
        if use is None or (kind := self._found(format_class, use, InputFormat, node=node.value["format"], key=f"{key}.format")) is None:
            return None
        reader = self._validated(Subject(kind, node, key, f"{use} input", ("format",)), ("format",))
        return Input(name, use, reader, node.place) if reader is not None else None

    def _stage(self, index: str, node: Node) -> StageSpec | None:
        name = stage_name(node)
        key = f"stages.{name or index}"
        if (given := node.child("as")) is not None:
            check_name(given.value, given.place, f"{key}.as", self.problems)
        kind = self._kind(node, key)
        if kind is None or name is None:
            return None
        roles = read_roles(node, key, kind, self.problems)
        self.readings += [Reading(f"{key}.from", table, place, name) for table, place in roles.values()]
        wanted = stage_parameters(kind)
        held = {name: child for name, child in node.children() if name in wanted}
        inner = {name: self._inner(child, f"{key}.{name}", wanted[name]) for name, child in held.items()}
        own = Subject(kind, node, key, kind.name, STAGE_KEYS)
        stage = self._validated(own, own.known, {name: found or wanted[name].model_construct() for name, found in inner.items()})
        if stage is None or None in inner.values():
            return None
        places = {key: child.place for key, child in node.children()}
        mappings = {name: child for name, child in node.children() if wanted and isinstance(child.value, dict)}
        places |= {f"{name}.{key}": below.place for name, child in mappings.items() for key, below in child.children()}
        tables = {role: table for role, (table, _) in roles.items()}
        return StageSpec(name, kind.name, tables, stage, node.place, places, self._checkpoint(node, key))

    def _checkpoint(self, node: Node, key: str) -> bool | None:
        """Whether a stage's tables are to be kept; None where the job does not say."""
        given = node.child("checkpoint")
        if given is not None and not isinstance(given.value, bool):
            self.problems.add(given.place, f"{key}.checkpoint", f"expected true or false, found {found_text(given.value)}")
        return given.value if given is not None and isinstance(given.value, bool) else None

    def _kind(self, node: Node, key: str) -> type[Stage] | None:
        """The class of the stage that `use` names."""
        use = self._text(node, "use", key, "name of a stage; --list shows them")
        found: type[Stage] | None = self._found(stage_class, use, node=node.value["use"], key=f"{key}.use") if use is not None else None
        return found

    def _inner(self, node: Node, key: str, wanted: type[Stage]) -> Stage | None:
        """A stage that is a parameter of another one; None where it is wrong."""
        if not self._is_mapping(node, key):
            return None
        kind = self._kind(node, key)
        if kind is not None and not issubclass(kind, wanted):
            text = f"{kind.name!r} is no stage of the kind that is needed here. Stages that are: {', '.join(stages_of(wanted))}."
            self.problems.add(node.value["use"].place, f"{key}.use", text)
            return None
        found: Stage | None = self._validated(Subject(kind, node, key, kind.name, ("use",)), ("use",)) if kind is not None else None
        return found

    def _output(self, name: str, node: Node) -> Output | None:
        key = f"outputs.{name}"
        if name in RESERVED:
            self.problems.add(node.place, key, f"{name!r} is the folder of {RESERVED[name]}; give the output another name")
        own = Node({k: child for k, child in node.children() if k in OUTPUT_KEYS}, node.place, node.keys)
        keys = self._validated(Subject(OutputKeys, own, key, "an output"), ())
        if isinstance(table := node.child("from"), Node) and isinstance(table.value, str):
            self.readings.append(Reading(f"{key}.from", table.value, table.place))
        given = node.child("format")
        use = str(given.value) if given is not None and isinstance(given.value, str) else "parquet"
        kind = self._found(format_class, use, OutputFormat, node=given or node, key=f"{key}.format")
        writer = self._validated(Subject(kind, node, key, f"{use} output", OUTPUT_KEYS), OUTPUT_KEYS) if kind is not None else None
        if keys is None or writer is None:
            return None
        places = {key: child.place for key, child in node.children()}
        return Output(name, keys.table, Order(keys.sort_by), keys.columns, use, writer, node.place, places, keys.append)

    def _text(self, node: Node, name: str, key: str, meaning: str) -> str | None:
        """A key that must be there and be text."""
        found = node.child(name)
        if found is None or not isinstance(found.value, str):
            what = f"missing: {name} ({meaning})" if found is None else f"expected text ({meaning}), found {found_text(found.value)}"
            self.problems.add((found or node).place, f"{key}.{name}", what)
            return None
        return found.value

    def _found(self, find: Any, *arguments: Any, node: Node, key: str) -> Any:
        """What a registry finds; None where it refuses, with its words as the problem."""
        try:
            return find(*arguments)
        except JobError as error:
            self.problems.add(node.place, key, str(error))
            return None

    def _validated(self, subject: Subject, others: Sequence[str], made: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """The subject's model with its keys, `others` left aside, those that are `made` as they are; None where they are wrong."""
        data = {key: made.get(key, child.data()) for key, child in subject.node.children() if key not in others}
        try:
            values = subject.model.model_validate(data)
        except ValidationError as error:
            report(error, subject, self.problems)
            return None
        check_numbers(values, subject, self.problems)
        return values

    def _table_names(self) -> set[str]:
        """Every name that an input or a stage gives, sound or not: what depends on a wrong stage is not wrong itself."""
        inputs = self.root.child("inputs")
        names = {name for name, _ in inputs.children()} if inputs is not None and isinstance(inputs.value, dict) else set()
        stages = self.root.child("stages")
        return names | {name for _, node in (stages.children() if stages else ()) if (name := stage_name(node))}

    def _unique_names(self) -> bool:
        """Whether every name is given once; those that are not are problems."""
        inputs = self.root.child("inputs")
        first = {name: (place, "input") for name, place in inputs.keys.items()} if inputs is not None else {}
        stages, unique = self.root.child("stages"), True
        for _, node in stages.children() if stages is not None else ():
            name = stage_name(node)
            if name is None:
                continue
            place = (node.child("as") or node.child("use") or node).place
            if name in first:
                unique = False
                where = f"the {first[name][1]} at {first[name][0].within(self.problems.path)}"
                self.problems.add(
                    place, f"stages.{name}", f"the name {name!r} is that of {where} already: give this stage another with `as`"
                )
            first.setdefault(name, (place, "stage"))
        return unique
