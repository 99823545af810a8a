"""Association results as bgzipped text, a file a trait, joined from what each part gives. Not a format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote

import polars as pl

from pipeline.errors import JobError, near
from pipeline.format import JoinedOutput, Piece
from pipeline.formats._bgzip.blocks import EOF_BLOCK
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats._joined import join_files
from pipeline.tables.part import Part, Schema

PLACE = (("chromosome",), ("base_pair_location",), ("effect_allele",), ("other_allele",))
EFFECT = ("beta", "odds_ratio", "hazard_ratio")
P_VALUE = ("p_value", "neg_log_10_p_value")
NUMBERS = {**{str(number): number for number in range(1, 23)}, "X": 23, "Y": 24, "MT": 25}
_LISTING = "json"


@dataclass(frozen=True)
class OfTrait:
    """What there is of a trait: rows, rows left out, and what else the format notes of them, as JSON."""

    trait: str = ""
    rows: int = 0
    left_out: int = 0
    noted: Mapping[str, Any] = field(default_factory=dict)


class TraitOutput(JoinedOutput):
    """NAME.TRAIT.ENDING.gz for each trait, NAME.ENDING.gz without a column `trait`; rows in the table's order.

    `needed` are the columns, of each the first that the table has; `labels` say what a file is called in messages.
    """

    ending: ClassVar[str] = ""
    label: ClassVar[str] = ""
    needed: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without a column that is needed."""
        need_columns_of(self.label, self.needed, columns)

    def lines(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of a trait that the format can hold, in its columns, not yet text."""
        raise NotImplementedError(f"{type(self).__name__} has no lines")

    def text(self, lines: pl.DataFrame) -> bytes:
        """These as text, without a header."""
        raise NotImplementedError(f"{type(self).__name__} has no text")

    def header(self, columns: Sequence[str], whole: OfTrait) -> str:
        """What stands before the lines of a trait."""
        raise NotImplementedError(f"{type(self).__name__} has no header")

    def noted(self, lines: pl.DataFrame) -> dict[str, Any]:
        """What the header or the metadata want to know of some lines, which JSON can hold."""
        return {}

    def noted_together(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """The same of lines and of those that follow them."""
        return {}

    def beside(self, file: Path, whole: OfTrait) -> Mapping[str, str]:
        """Texts of files that lie beside a trait's: what their names have behind its own."""
        return {}

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """Each trait's rows as bgzip blocks, and a listing of them."""
        rows = part.frame
        traits = rows.partition_by("trait", as_dict=True, include_key=True) if "trait" in rows.columns else {(None,): rows}
        written = dict[str, OfTrait]()
        for (trait,), some in traits.items():
            lines = self.lines(some)
            member = self.ending if "trait" not in rows.columns else f"{quote(str(trait), safe='')}.{self.ending}"
            Path(f"{path}.{member}").write_bytes(bgzip(self.text(lines)))
            noted = self.noted(lines) if lines.height else {}
            written[member] = OfTrait("" if trait is None else str(trait), lines.height, some.height - lines.height, noted)
        listing = {"columns": self.lines(rows.clear()).columns, "members": {member: asdict(one) for member, one in written.items()}}
        Path(f"{path}.{_LISTING}").write_text(json.dumps(listing), encoding="utf-8")
        return {**{member: one.rows for member, one in written.items()}, _LISTING: 0}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """A file a trait, in the order in which traits first stand, and what lies beside it; one of no rows where there are no traits."""
        listings = [json.loads(Path(piece.file(_LISTING)).read_text(encoding="utf-8")) for piece in pieces]
        written = dict[str, OfTrait]()
        for listing in listings:
            for member, described in listing["members"].items():
                written[member] = self._together(written.get(member), OfTrait(**described))
        files = dict[str, int | None]()
        for member, whole in (written or {self.ending: OfTrait()}).items():
            parts, name = [piece.file(member) for piece in pieces if member in piece.rows], f"{stem}.{member}.gz"
            header = self.header(listings[0]["columns"], whole)
            join_files(name, parts, before=bgzip(header.encode()), after=EOF_BLOCK)
            files[f".{member}.gz"] = whole.rows
            for behind, text in self.beside(Path(name), whole).items():
                join_files(f"{name}{behind}", [], before=text.encode())
                files[f".{member}.gz{behind}"] = None
        return files

    def trait_of(self, rest: str) -> str | None:
        """The trait of a file, by its name after the output's; None for one beside it."""
        if not rest.endswith(f".{self.ending}.gz"):
            return None
        return unquote(rest.removesuffix(f".{self.ending}.gz").removeprefix("."))

    def _together(self, before: OfTrait | None, after: OfTrait) -> OfTrait:
        if before is None or after.rows == 0:
            return after if before is None else replace(before, left_out=before.left_out + after.left_out)
        noted = self.noted_together(before.noted, after.noted) if before.rows else after.noted
        return OfTrait(before.trait, before.rows + after.rows, before.left_out + after.left_out, noted)


def need_columns_of(label: str, needed: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
    """Raise JobError where a table has none of some names."""
    for names in needed:
        if not {*names} & {*columns}:
            raise JobError(
                f"{label} needs the column {' or '.join(names)}, which is not written here.{near(names[0], columns)} "
                "Name it so with rename, or compute it with select."
            )


def first_of(names: Sequence[str], columns: Sequence[str]) -> str:
    """The first of some columns that a table has."""
    return next(name for name in names if name in columns)


def without_nan(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, with null for what is no number."""
    return rows.with_columns(pl.col(name).fill_nan(None) for name, dtype in rows.schema.items() if dtype.is_float())


def logarithms(rows: pl.DataFrame) -> pl.Expr:
    """-log10 of the p-values of rows that have them either way."""
    if "neg_log_10_p_value" in rows.columns:
        return pl.col("neg_log_10_p_value")
    return -pl.col("p_value").log10()


def log_effects(rows: pl.DataFrame) -> pl.Expr:
    """The effect as a beta: a ratio's logarithm."""
    name = first_of(EFFECT, rows.columns)
    return pl.col(name) if name == "beta" else pl.col(name).log()
