"""Which artefacts of a results place still hold some people, those who have withdrawn say: by name, or because they were among the rows.

Names are looked for in the content of every file. Among whose rows a table was computed is worked out by the job, from the inputs down: a
table has the people of all that it was made of, but for a join that takes them away by their ids, for a scan, which has those alone who
are in its table of people, and for moments that are taken away. So what is said can be too much (a filter may have left them out), and
never too little. An input that an earlier run published has the people of that run's output; others are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pipeline.errors import PipelineError, PlaceError
from pipeline.format import InputFormat
from pipeline.provenance.named import ID_COLUMNS, named_in_file, named_in_input, people_in
from pipeline.provenance.told import Told, read_told, tables_of
from pipeline.results.manifest import MANIFEST, RECORD
from pipeline.results.stage_folder import FOLDER as CHECKPOINTS
from pipeline.results.store import open_store
from pipeline.running.replayed import Former

People = frozenset[str]
NOBODY: People = frozenset()
PLAIN = frozenset({MANIFEST, RECORD, "certificate.json"})  # files of a run that hold whom they name


@dataclass(frozen=True)
class Artefact:
    """A file or folder of a results place: how many of the people its content names, and how many were among what it was computed from.

    `through` are the inputs that have them. `unknown` says why it is not known who was among its rows, '' where it is.
    """

    path: str
    named: int
    computed: int
    through: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def holds(self) -> bool:
        """Whether it holds some of the people, as far as is known."""
        return bool(self.named or self.computed or self.unknown)

    def __str__(self) -> str:
        said = [f"names {self.named:,}"] if self.named else []
        said += [f"computed with {self.computed:,}, by {', '.join(self.through)}"] if self.computed else []
        said += [f"not known: {self.unknown}"] if self.unknown else []
        return f"{self.path}: {'; '.join(said) or 'holds nobody'}"


@dataclass(frozen=True)
class Of:
    """People of a table, by the input that has them, and why they are not known."""

    by_input: Mapping[str, People] = field(default_factory=dict)
    unknown: str = ""

    @property
    def people(self) -> People:
        """All of them."""
        return NOBODY.union(*self.by_input.values())

    def joined(self, other: Of) -> Of:
        """Those of both."""
        names = dict.fromkeys((*self.by_input, *other.by_input))
        both = {name: self.by_input.get(name, NOBODY) | other.by_input.get(name, NOBODY) for name in names}
        return Of(both, self.unknown or other.unknown)

    def among(self, people: People) -> Of:
        """Those who are among some people."""
        return Of({name: of & people for name, of in self.by_input.items()}, self.unknown)

    def artefact(self, path: str, named: People) -> Artefact:
        """What is said of an artefact that was computed from them, and names some."""
        through = tuple(name for name, of in self.by_input.items() if of)
        return Artefact(path, len(named), len(self.people), through, self.unknown)


def held(place: str, people: str | Path) -> list[Artefact]:
    """Every artefact of a results place, of all runs that are kept and of what lies beside them, with whom of the people it holds.

    `people` is a CSV file with a column sample_id (or IID, eid), or an id a line. Raises InputError for a file of people that cannot be
    read, PlaceError for a place that cannot.
    """
    ids = people_in(people)
    if "://" in place:
        raise PlaceError(f"{place}: artefacts are looked through on a disk alone. Copy or mount the results, and give that folder.")
    if not Path(place).is_dir():
        raise PlaceError(f"{place}: there is no such folder. Give a results folder.")
    return Search(Path(place).resolve(), ids).artefacts()


class Search:
    """One look through a place, and through others that its runs read from."""

    def __init__(self, root: Path, ids: People) -> None:
        self.root, self.ids, self.store = root, ids, open_store(str(root))
        self._runs: dict[Path, dict[str, Of]] = {}
        self._published: dict[Path, list[tuple[str, Path, str]]] = {}

    def artefacts(self) -> list[Artefact]:
        """All of the place, runs first and the oldest of them before."""
        found, tables = list[Artefact](), dict[str, Of]()
        files = _by_folder(file for file in self.store.sizes("") if self.store.linked(file) is None)
        for run in sorted(folder for folder in files if folder.startswith("runs/")):
            known = self._of_run(self.root / run) if f"{run}/{RECORD}" in files[run] else {}
            for name, of in known.items():
                tables[name] = tables.get(name, Of()).joined(of)
            found += self._run(run, files.pop(run), known)
        for folder, names in sorted(files.items()):
            beside = names == [folder]  # no folder, but a file that says when checkpoints were used
            of = Of() if beside or not folder.startswith(f"{CHECKPOINTS}/") else self._checkpoint(folder, tables)
            found.append(of.artefact(folder, self._named(names)))
        return found

    def _run(self, run: str, files: list[str], known: Mapping[str, Of]) -> Iterable[Artefact]:
        told = read_told(str(self.root / run)) if known else None
        outputs = {} if told is None else {name: _table(known, output["from"]) for name, output in told.job["outputs"].items()}
        everything = reduce(Of.joined, known.values(), Of())
        groups = dict[str, list[str]]()
        for file in files:
            inner = file.removeprefix(f"{run}/")
            groups.setdefault(inner if inner.startswith("models/") else inner.split("/")[0], []).append(file)
        for name, names in groups.items():
            model = known.get(Path(name).stem, everything) if name.startswith("models/") else everything
            of = Of() if name in PLAIN else outputs.get(name, model)
            yield of.artefact(f"{run}/{name}", self._named(names))

    def _checkpoint(self, folder: str, tables: Mapping[str, Of]) -> Of:
        """The people of a checkpoint's table, over all runs that made one of that name."""
        try:
            name = str(json.loads(self.store.read(f"{folder}/{MANIFEST}"))["table"]).removesuffix(" (beside)")
        except (OSError, ValueError, KeyError) as error:
            return Of(unknown=f"its manifest cannot be read ({error!r})")
        return tables.get(name, tables.get(name.partition(".")[0], Of(unknown=f"no run that is kept has a table {name!r}")))

    def _named(self, files: Iterable[str]) -> People:
        return NOBODY.union(*(named_in_file(self.root / file, self.ids) for file in files))

    def _of_run(self, folder: Path) -> dict[str, Of]:
        """The people of every table of a run, by the table's name."""
        if folder not in self._runs:
            told = read_told(str(folder))
            self._runs[folder] = tables = {name: self._input(told, name) for name in told.job["inputs"]}
            for stage in told.job["stages"]:
                reads = {role: _table(tables, name) for role, name in tables_of(stage["from"]).items()}
                tables[stage["as"]] = after(stage, reads, [*tables_of(stage["from"])])
        return self._runs[folder]

    def _input(self, told: Told, name: str) -> Of:
        """The people of an input: of the outputs that its files were, and else by what it reads now."""
        files = told.certificate.get("inputs", {}).get(name, [])
        found = [self._published_as(Path(file["path"]), file.get("sha256", ""), Path(told.path).name) for file in files]
        if files and all(found):
            return reduce(Of.joined, [of for of in found if of is not None], Of())
        try:
            return Of({name: named_in_input(_reader(told, name), self.ids)})
        except (PipelineError, OSError) as error:
            return Of(unknown=f"input {name} cannot be read ({error})")

    def _published_as(self, file: Path, sha256: str, by: str) -> Of | None:
        """The people of an output that a file was, by its content; None where no run before the one that read it published it."""
        for place in (above for above in file.resolve().parents if (above / "runs").is_dir()):
            if place not in self._published:
                self._published[place] = [*_outputs(place)]
            for content, run, output in self._published[place]:
                if content == sha256 and run.name < by:
                    told = read_told(str(run))
                    return _table(self._of_run(run), told.job["outputs"][output]["from"])
        return None


def after(stage: Mapping[str, Any], reads: Mapping[str, Of], roles: list[str]) -> Of:
    """The people of a stage's tables, from those of the tables that it reads, by role; a stage's one table is of the role of its name."""
    everybody = reduce(Of.joined, reads.values(), Of())
    if stage["use"] == "join" and {"left", "right"} <= {*roles} and not stage.get("where") and _by_id(stage.get("on")):
        if stage.get("how") == "anti" and not reads["right"].unknown:
            return reads["left"].among(reads["left"].people - reads["right"].people)
        if stage.get("how", "inner") in {"inner", "semi"} and not any(of.unknown for of in reads.values()):
            return everybody.among(reads["left"].people & reads["right"].people)
    if {"genotypes", "samples"} <= {*roles} and not any(of.unknown for of in reads.values()):
        scanned = reads["genotypes"].joined(reads["samples"]).among(reads["genotypes"].people & reads["samples"].people)
        return reduce(Of.joined, [of for role, of in reads.items() if role not in {"genotypes", "samples"}], scanned)
    if stage["use"] == "pool_moments" and "withdrawn" in roles and not reads["withdrawn"].unknown:
        return reads["moments"].among(reads["moments"].people - reads["withdrawn"].people)
    return everybody


def _by_id(on: Any) -> bool:
    """Whether a join is by people's ids alone."""
    pairs = on if isinstance(on, Mapping) else {name: name for name in ([on] if isinstance(on, str) else on or [])}
    return len(pairs) == 1 and all(name.lower() in ID_COLUMNS for pair in pairs.items() for name in pair)


def _table(tables: Mapping[str, Of], name: str) -> Of:
    return tables.get(name) or tables.get(name.partition(".")[0]) or Of(unknown=f"there is no table {name!r}")


def _reader(told: Told, name: str) -> InputFormat:
    """The reader of an input, by the job as it was recorded."""
    return Former(told.path, told.record, told.certificate).job([]).inputs[name].reader


def _outputs(place: Path) -> Iterable[tuple[str, Path, str]]:
    """The checksum of every file that the runs of a place published, with the run's folder and the output."""
    for certificate in sorted((place / "runs").glob("*/certificate.json")):
        document = json.loads(certificate.read_text(encoding="utf-8"))
        for name, entry in document["outputs"].items():
            if not name.startswith("models/"):
                yield entry["sha256"], certificate.parent, name.split("/")[0]


def _by_folder(files: Iterable[str]) -> dict[str, list[str]]:
    """Files by what they belong to: a run, a checkpoint, an import, or themselves."""
    found = dict[str, list[str]]()
    for file in files:
        parts = file.split("/")
        found.setdefault("/".join(parts[:2]) if len(parts) > 2 else file, []).append(file)
    return found
