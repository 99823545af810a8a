"""regenie's predictions of step 1: a list NAME_pred.list of traits and their files, of which each is a .loco.

https://rgcgithub.github.io/regenie/options/: the first line of a .loco has FID_IID and the people as FID_IID, every other line a chromosome
(23 is X) and what all others predict of each. Files may be gzipped. One that the list names without a folder, or in one that is not there,
lies beside the list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import DataError, InputError, JobError, near
from pipeline.files import beside, exists, parent
from pipeline.format import CostlySource, JoinedOutput, Piece
from pipeline.formats._bgzip.lines import whole_text
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._joined import join_files
from pipeline.formats._plink.ids import Ids, ids_field
from pipeline.genome.chromosomes import HUMAN, natural_order
from pipeline.genome.columns import dtypes_of
from pipeline.tables.part import Part, Schema

COLUMNS = ("trait", "sample_id", "chromosome", "prediction")
_X = str(HUMAN + 1)
_FIRST = "FID_IID"
_LISTING = "json"


@dataclass(frozen=True)
class LocoSource(CostlySource):
    """The predictions of one trait."""

    trait: str
    path: str
    limits: Bounds = DEFAULTS
    ids: Ids = "iid"

    def load(self) -> Part:
        """A row per chromosome and person. Raises InputError for a line that is not as the first one says."""
        lines = whole_text(self.path, self.limits).splitlines()
        header = lines[0].split() if lines else []
        if len(header) < 2 or header[0] != _FIRST:
            raise InputError(f"{self.path}: its first line does not begin with {_FIRST} and people. Is it a .loco of regenie's step 1?")
        names = header[1:] if self.ids == "fid_iid" else [_person(self.path, name) for name in header[1:]]
        people = pl.Series("sample_id", names, pl.String)
        frames = [self._row(number, line, people) for number, line in enumerate(lines[1:], 2) if line.strip()]
        return Part(pl.concat([pl.DataFrame(schema=dtypes_of(COLUMNS)), *frames]))

    def _row(self, number: int, line: str, people: pl.Series) -> pl.DataFrame:
        chromosome, *values = line.split()
        if len(values) != len(people):
            raise InputError(f"{self.path}: line {number} has {len(values):,} predictions of {len(people):,} people. Is it cut short?")
        numbers = pl.Series("prediction", values, pl.String).cast(pl.Float64, strict=False)
        there = pl.Series(values) != "NA"
        if (wrong := np.flatnonzero(~np.isfinite(numbers.fill_null(float("nan")).to_numpy()) & there.to_numpy())).size:
            raise InputError(f"{self.path}: line {number} has {values[wrong[0]]!r} where a number must be")
        frame = pl.DataFrame([people, numbers])
        frame = frame if there.all() else frame.filter(there)  # regenie has NA for who lacks a binary trait
        name = pl.lit("X" if chromosome == _X else chromosome).alias("chromosome")
        return frame.select(pl.lit(self.trait).alias("trait"), "sample_id", name, "prediction")


class LocoInput(BoundedInput):
    """regenie's predictions: the lists NAME_pred.list of its step 1, a part a trait.

    sample_id is the IID. It is told from FID_IID where both are the same, the FID is 0, or neither has an underscore; else it is refused.
    With `ids: fid_iid` it is both, as the file has it.
    """

    name = "loco"
    suffixes = ("_pred.list",)
    ids: Ids = ids_field()

    def table_schema(self) -> Schema:
        """Trait, sample_id, chromosome and prediction. Raises InputError for what is no such list."""
        self._listed()
        return Schema(pl.Schema(dtypes_of(COLUMNS)))

    def content(self) -> list[str]:
        """The lists and the files that they name."""
        return [*self.files(), *(source.path for source in self._listed())]

    def sources(self, parallel: int) -> Sequence[LocoSource]:
        """One a trait."""
        return self._listed()

    def _listed(self) -> list[LocoSource]:
        found = list[LocoSource]()
        for path in self.files():
            for line in whole_text(path, self.limits).splitlines():
                words = line.split(maxsplit=1)
                if len(words) != 2:
                    raise InputError(
                        f"{path}: the line {line[:80]!r} must have a trait and its file. Give the _pred.list of regenie's step 1."
                    )
                found.append(LocoSource(words[0], _file(path, words[1].strip()), self.limits, self.ids))
        if not found:
            raise InputError(f"{', '.join(self.path)}: the list names no trait")
        return found


class LocoOutput(JoinedOutput):
    """regenie's predictions: NAME_pred.list and a file NAME.TRAIT.loco for each trait, for `regenie --step 2 --pred`.

    The table has trait, sample_id, chromosome and prediction, and each chromosome of a trait the same people. The FID is a column family_id
    where the table has it, else the sample_id again; with `ids: fid_iid` (of a table of people who were read so) both are the sample_id.
    regenie knows nobody whose FID is another one than its genotypes have. The list names the files alone: run regenie in their folder.
    """

    name = "loco"
    ids: Ids = ids_field()

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without a column that is needed."""
        for name in COLUMNS:
            if name not in columns:
                raise JobError(f"loco needs the column {name}, which is not written here.{near(name, columns)} Name it so with rename.")

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """Each trait's rows, and a listing of the traits."""
        members = dict[str, str]()
        counts = dict[str, int]()
        for (trait,), rows in part.frame.partition_by("trait", as_dict=True, maintain_order=True).items():
            member = f"{quote(str(trait), safe='')}.loco"
            rows.write_ipc(f"{path}.{member}")
            members[member], counts[member] = str(trait), rows.height
        Path(f"{path}.{_LISTING}").write_text(json.dumps(members), encoding="utf-8")
        return counts | {_LISTING: 0}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """A file a trait, in the order in which traits first stand, and the list. Raises DataError where a chromosome lacks people."""
        found = dict[str, tuple[str, list[str]]]()
        for piece in pieces:
            for member, trait in json.loads(Path(piece.file(_LISTING)).read_text(encoding="utf-8")).items():
                found.setdefault(member, (trait, []))[1].append(piece.file(member))
        files, listed = dict[str, int | None](), ""
        for member, (trait, paths) in found.items():
            if trait.split() != [trait]:
                raise DataError(f"regenie's list cannot hold the trait {trait!r}, for there is a space in it. Rename it.")
            rows = pl.concat([pl.read_ipc(path, memory_map=False) for path in paths])
            join_files(f"{stem}.{member}", [], before=_lines(trait, rows, self.ids).encode())
            files[f".{member}"] = rows.height
            listed += f"{trait} {Path(stem).name}.{member}\n"
        join_files(f"{stem}_pred.list", [], before=listed.encode())
        return files | {"_pred.list": None}


def _lines(trait: str, rows: pl.DataFrame, ids: Ids) -> str:
    """A header and a line a chromosome, in their order, each of the people in the order in which they first stand."""
    first = rows.unique("sample_id", keep="first", maintain_order=True)
    people = named = first["sample_id"]
    if ids == "iid":
        family = pl.col("family_id" if "family_id" in rows.columns else "sample_id")
        named = first.select(pl.concat_str(family, "sample_id", separator="_")).to_series()
    elif (short := named.filter(~named.str.contains("_", literal=True))).len():
        raise DataError(
            f"ids are fid_iid, and the sample_id {short[0]!r} has no _ in it. Read genotypes and people with ids: fid_iid, too."
        )
    lines = [f"{_FIRST} {' '.join(named)}"]
    by_chromosome = rows.partition_by("chromosome", as_dict=True)
    for (chromosome,), some in sorted(by_chromosome.items(), key=lambda item: natural_order(str(item[0][0]))):
        if some["sample_id"].to_list() != people.to_list():
            some = people.to_frame().join(some, on="sample_id", how="left", maintain_order="left")
        if some.height != len(people) or some["prediction"].null_count():
            raise DataError(f"chromosome {chromosome} of {trait!r} has not one prediction of each of the {len(people):,} people.")
        code = _X if chromosome == "X" else str(chromosome)
        lines.append(f"{code} {' '.join(some['prediction'].cast(pl.Float64).cast(pl.String))}")
    return "\n".join(lines) + "\n"


def _file(listing: str, named: str) -> str:
    """The path of a file that a list names. Raises InputError where it is not there."""
    near_by = beside(parent(listing), named.replace("\\", "/").rpartition("/")[2])
    for path in (named, f"{named}.gz") if named.startswith("/") else ():
        if exists(path):
            return path
    for path in (near_by, f"{near_by}.gz"):
        if exists(path):
            return path
    raise InputError(f"{listing}: the file {named!r}, which it names, is neither there nor beside the list")


def _person(path: str, name: str) -> str:
    """The IID of FID_IID. Raises InputError where it cannot be told."""
    half = len(name) // 2
    if name[:half] == name[half + 1 :] and name[half : half + 1] == "_":
        return name[:half]
    if name.count("_") == 1 or name.startswith("0_"):
        return name.partition("_")[2]
    raise InputError(
        f"{path}: where the FID of {name!r} ends cannot be told. Read all with ids: fid_iid, or run step 1 with FID and IID alike."
    )
