"""YAML 1.2 text -> nodes with their places, in bounded time and memory.

ruamel.yaml splits the text into events; what they mean is the core schema of YAML 1.2, written here: `1e-6` is a number, `no`, `on` and
`2026-01-31` are text. Refused: a key given twice, tags, merge keys, several documents, and what only wastes time (depth, size, aliases).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from pipeline.errors import JobError, near
from pipeline.job.yaml_tree import Node, Place, Problems, found_text

MAX_BYTES = 256_000
MAX_NODES = 50_000
MAX_DEPTH = 50
MAX_DIGITS = 40

NULL = {"", "~", "null", "Null", "NULL"}
BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class _TextError(Exception):
    """The text is no YAML that a job can be; reading stops there."""

    def __init__(self, place: Place, what: str) -> None:
        super().__init__(what)
        self.place, self.what = place, what


def read_file(path: Path) -> str:
    """The file's text; JobError where there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        known = [file.name for file in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        raise JobError(f"{path}: no such job file.{near(path.name, known)}") from None
    except IsADirectoryError:
        known = sorted(str(file) for file in path.glob("*.y*ml"))[:5]
        raise JobError(f"{path}: is a folder; give a job file{', such as ' + ', '.join(known) if known else ''}") from None
    except OSError as error:
        raise JobError(f"{path}: the job file cannot be read ({error.strerror or error})") from error
    if len(data) > MAX_BYTES:
        raise JobError(f"{path}: larger than {MAX_BYTES:,} bytes; a job file is a page or two. Is it the right file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JobError(f"{path}: not UTF-8 text (byte {error.start}). Is it a job file? Save it as UTF-8.") from error


def read_yaml(text: str, problems: Problems, given: str = "") -> Node | None:
    """The document's tree, or None where it cannot be read; what is wrong goes to `problems`. `given` is an override's own text."""
    if len(text) > MAX_BYTES:
        problems.add(Place(1, 1, given), "", f"{len(text):,} characters of YAML are more than a job may have ({MAX_BYTES:,})")
        return None
    try:
        return _Reader(text, problems, given).document()
    except _TextError as error:
        problems.add(error.place, "", error.what)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1, given) if mark is not None else Place(1, 1, given)
        problems.add(place, "", f"not YAML: {_hinted(', '.join(filter(None, (error.context, error.problem))))}")
    except YAMLError as error:
        problems.add(Place(1, 1, given), "", f"not YAML: {str(error).splitlines()[0]}")
    return None


def scalar(text: str) -> Any:
    """What a scalar without quotes means by the core schema of YAML 1.2. Raises ValueError for a number that nothing can hold."""
    if text in NULL:
        return None
    if text in BOOLEAN:
        return BOOLEAN[text]
    if INTEGER.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a number of {len(text)} digits is more than can be held; put it in quotes if it is text")
        return int(text) if text.lstrip("-+").isdecimal() else int(text, 0)
    if FLOAT.fullmatch(text):
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if not math.isfinite(number):
            raise ValueError(f"{found_text(text)} is not a finite number; for no limit leave the key out, as text put it in quotes")
        return number
    return text


def _hinted(what: str) -> str:
    """ruamel's complaint with what usually helps."""
    if "'\\t'" in what:
        return f"{what}. Indent with spaces, not tabs"
    if "mapping values are not allowed" in what:
        return f"{what}. Put text that has ': ' in it in quotes, and check the indentation"
    if "'%'" in what or "'@'" in what or "'`'" in what:
        return f"{what}. Put the text in quotes"
    if what.startswith("while parsing a flow"):
        return f"{what}. Between braces and brackets put text that has a comma, a colon, a quote, a brace or a bracket in quotes, all of it"
    if what.startswith("while scanning a quoted scalar"):
        return f"{what}. A quote is not closed; text that has quotes, or ': ', in it wants quotes around the whole of it"
    return what


def _cut_short(read: str, text: str) -> str:
    """What is said of a text between braces that ends within its parentheses: of what was read, and what stands there."""
    depth, meant = 0, ""
    for place, letter in enumerate(text.split("\n")[0]):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0 and letter in ",}]":
            meant = text[:place].strip()
            break
    shown = f", {meant!r}" if '"' in meant else f', "{meant}"' if meant else ""
    return f"between braces and brackets a text ends at a comma, so this one is {found_text(read)}. Put all of it in quotes{shown}"


class _Reader:
    """Builds the tree from ruamel's events, one document long."""

    def __init__(self, text: str, problems: Problems, given: str) -> None:
        self.text = text
        self.events: Iterator[Any] = iter(YAML(typ="safe", pure=True).parse(text))
        self.problems = problems
        self.given = given
        self.anchors: dict[str, Node | None] = {}
        self.nodes = 0

    def document(self) -> Node | None:
        """The one document; None where there is none."""
        next(self.events)
        event = next(self.events)
        if isinstance(event, events.StreamEndEvent):
            return None
        if isinstance(event, events.DocumentStartEvent) and event.version not in {None, (1, 2)}:
            raise _TextError(self._place(event), "a job file is YAML 1.2: take the %YAML line away")
        root = self.node(next(self.events), 1)
        next(self.events)
        event = next(self.events)
        if not isinstance(event, events.StreamEndEvent):
            raise _TextError(self._place(event), "a second document begins here; a job file is one document")
        return root

    def node(self, event: Any, depth: int, *, inline: bool = False) -> Node:
        """The value that begins with an event, `inline` where it stands between braces or brackets."""
        place = self._place(event)
        if inline and isinstance(event, events.ScalarEvent) and event.implicit[0] and event.value.count("(") > event.value.count(")"):
            raise _TextError(place, _cut_short(event.value, self.text[event.start_mark.index :]))
        self._spend(place, depth)
        if isinstance(event, events.AliasEvent):
            return self._alias(event.anchor, place, depth)
        if event.tag is not None:
            raise _TextError(place, f"tags such as {found_text(str(event.tag))} have no place in a job file; put a text in quotes instead")
        if event.anchor:
            self.anchors[event.anchor] = None
        node = self._value(event, place, depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _value(self, event: Any, place: Place, depth: int) -> Node:
        if isinstance(event, events.ScalarEvent):
            plain = bool(event.implicit[0])
            try:
                return Node(scalar(event.value) if plain else event.value, place, plain=plain)
            except ValueError as error:
                self.problems.add(place, "", str(error))
                return Node(event.value, place)
        inline = bool(event.flow_style)
        if not isinstance(event, events.MappingStartEvent):
            items = []
            while not isinstance(event := next(self.events), events.SequenceEndEvent):
                items.append(self.node(event, depth + 1, inline=inline))
            return Node(items, place)
        return self._mapping(place, depth, inline=inline)

    def _mapping(self, place: Place, depth: int, *, inline: bool) -> Node:
        node = Node({}, place)
        while not isinstance(event := next(self.events), events.MappingEndEvent):
            where = self._place(event)
            if not isinstance(event, events.ScalarEvent) or event.tag is not None or event.anchor:
                raise _TextError(where, "a key must be a plain text")
            key = str(event.value)
            if key == "<<" and event.implicit[0]:
                raise _TextError(where, "merge keys (<<) are not part of YAML 1.2: write the keys out")
            value = self.node(next(self.events), depth + 1, inline=inline)
            if key in node.value:
                first = node.keys[key].within(self.problems.path)
                self.problems.add(where, "", f"the key {found_text(key)} is given twice; the first is at {first}. Take one away.")
                continue
            node.value[key], node.keys[key] = value, where
        return node

    def _alias(self, anchor: str, place: Place, depth: int) -> Node:
        if anchor not in self.anchors:
            raise _TextError(place, f"the alias *{anchor} has no anchor &{anchor} before it")
        node = self.anchors[anchor]
        if node is None:
            raise _TextError(place, f"the alias *{anchor} stands inside its own anchor: it would never end")
        return self._copy(node, place, depth)

    def _copy(self, node: Node, place: Place, depth: int) -> Node:
        """A tree of its own for every alias, so that an override changes one place; it counts as if it were written out."""
        self._spend(place, depth)
        value = node.value
        if isinstance(value, dict):
            value = {key: self._copy(child, place, depth + 1) for key, child in value.items()}
        elif isinstance(value, list):
            value = [self._copy(child, place, depth + 1) for child in value]
        return Node(value, node.place, dict(node.keys), node.plain)

    def _spend(self, place: Place, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _TextError(place, f"more than {MAX_NODES:,} values, aliases written out: that is no job (or a YAML bomb)")
        if depth > MAX_DEPTH:
            raise _TextError(place, f"nested more than {MAX_DEPTH} levels deep: that is no job")

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(mark.line + 1, mark.column + 1, self.given)
