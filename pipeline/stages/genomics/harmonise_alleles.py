"""Alleles put as a reference genome has them: REF what it has there, ALT the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from pipeline.errors import DataError, StageError, near
from pipeline.genome.chromosomes import HUMAN, autosomes_of, chromosome_key
from pipeline.genome.columns import need_known
from pipeline.genome.fasta import reference_path
from pipeline.genome.genotypes import people_of
from pipeline.kernels.dosages import other_allele
from pipeline.stage import Context, Outcome, Whole, need_columns
from pipeline.stages.genomics._reference import Reference, reference_field
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, take
from pipeline.tables.table import Table

PLACE = ("chromosome", "base_pair_location")
VARIANTS, ASSOCIATIONS = ("ref", "alt"), ("other_allele", "effect_allele")
REASON = "reason"
NEGATED = ("beta", "statistic", "z_score")
SHARES = ("effect_allele_frequency", "alt_frequency")
RATIO, LIMITS = "odds_ratio", ("ci_lower", "ci_upper")
_STAYS, _SWAPPED, _UNLIKE, _NO_BASE, _NO_ALLELE, _PALINDROME, _NO_SEQUENCE = range(7)
_REASONS = {
    _UNLIKE: "neither allele is the reference's",
    _NO_SEQUENCE: "the reference has no such sequence",
    _NO_BASE: "the reference has no base there",
    _NO_ALLELE: "an allele is not of A, C, G and T",
    _PALINDROME: "an allele and its complement: the strand cannot be told",
}
_LETTERS = {ord(letter): letter for letter in "ACGT"}
_COMPLEMENT = dict(zip("ACGT", "TGCA", strict=True))
_SOME = 100  # rows


class _Met(NamedTuple):
    """Both alleles of each row, on the reference's strand, why it stays, is swapped or goes, and whether it was of the other strand."""

    first: pl.Series
    second: pl.Series
    why: NDArray[np.int8]
    flipped: NDArray[np.bool_]


class HarmoniseAlleles(Whole, name="harmonise_alleles", version=1):
    """Put alleles as the reference genome has them: REF (or other_allele) is what it has at the position, ALT (or effect_allele) the other.

    `rows` are variants (a genotype table) or associations. Where the second allele is the reference's and the first is not, the two change
    places, as PLINK 2's --ref-from-fa does: calls and dosages then count the other allele, beta, statistic and z_score change sign,
    frequencies become 1 - f, odds_ratio 1 / x and ci_lower and ci_upper change places. `strand: either` also takes alleles of the other
    strand, complemented, and then leaves out A/T and C/G, which are the same on both. What is not the reference's stands with the `reason`
    in NAME.unmatched. Alleles are written in capitals; an insertion or deletion that the reference bears out both ways stays. Other columns
    (INFO fields, ids) stay as they are. Sequences and chromosomes are compared without a leading chr; `rename` is for NCBI's names.

    Example:
        {use: harmonise_alleles, from: study, as: harmonised, reference: GRCh38.fa.gz}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "rows_in": Count("rows read"),
        "rows_swapped": Count("alleles changed places", always=True),
        "rows_flipped": Count("of the other strand"),
        "rows_unmatched": Count("rows left out", always=True),
        "rows_elsewhere": Count("on chromosomes that the reference lacks"),
    }

    reference: str = reference_field()
    strand: Literal["forward", "either"] = Field("forward", description="Whether alleles may be of the other strand.")
    rename: Mapping[str, str] = Field(
        default_factory=dict, description='Sequence: the name of its chromosome in the rows ({NC_000020.11: "20"}), where that is another.'
    )

    def files(self) -> Sequence[str]:
        """The reference."""
        return (reference_path(self.reference),)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """The rows as they are, and those left out with the reason."""
        rows = schemas["rows"]
        need_known(rows, PLACE, "rows")
        need_columns(rows, _alleles_of(rows.columns), "rows")
        if REASON in rows.columns:
            raise StageError(f"there is a column {REASON!r} already. Rename or drop it before.")
        if {RATIO, "beta"} < {*rows.columns} and {*LIMITS} & {*rows.columns}:
            raise StageError(f"{' and '.join(LIMITS)} may be of beta or of {RATIO}, and both are there. Drop one.")
        Reference.at(self.reference)
        return {"": rows, "unmatched": Schema(pl.Schema({**rows.columns, REASON: pl.String()}))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """A map over the parts."""
        reference = Reference.at(self.reference)
        rows = (tables["rows"] if tables["rows"].cheap else tables["rows"].hold()).named(context.name)
        writes = frozenset({*VARIANTS, *ASSOCIATIONS, *NEGATED, *SHARES, RATIO, *LIMITS})
        people = people_of(rows) if rows.axes else None
        found = rows.map_parts(self.harmonised, reference, people, writes=writes)
        return Outcome({"": found, "unmatched": rows.map_parts(self.unmatched, reference, people)})

    def noticed(self, counts: Mapping[str, int]) -> Sequence[str]:
        """Where most rows are not the reference's: it is that of another build."""
        out, rows = counts.get("rows_unmatched", 0), counts.get("rows_in", 0)
        if rows < _SOME or out <= rows / 2:
            return ()
        if (elsewhere := counts.get("rows_elsewhere", 0)) > out / 2:
            names = ", ".join([*Reference.at(self.reference).sequences()][:3])
            lacks = f"{elsewhere:,} of {rows:,} rows are on chromosomes that the reference lacks (it has {names} ...)"
            return (f"{lacks}. Say which are which: rename.",)
        return (
            f"{out:,} of {rows:,} rows do not fit the reference. Is it of the build of the rows? Put a liftover before, where it is not.",
        )

    def harmonised(self, part: Part, reference: Reference, people: Part | None) -> Part:
        """The rows of a part that are the reference's, as it has them."""
        met = self._met(part.frame, reference, people)
        rows = np.flatnonzero(met.why <= _SWAPPED)
        swapped = met.why == _SWAPPED
        names, columns, other = _alleles_of(part.frame.schema), part.frame.schema, pl.Series(swapped)
        first, second = (pl.when(other).then(one).otherwise(two) for one, two in ((met.second, met.first), (met.first, met.second)))
        changed = [first.cast(columns[names[0]]).alias(names[0]), second.cast(columns[names[1]]).alias(names[1])]
        frame = part.frame.with_columns(*changed, *_of_the_other(columns, other))[rows]
        count, places = people.rows if people else 0, np.flatnonzero(swapped)
        arrays = {name: take(other_allele(array, count, places), rows) for name, array in part.arrays.items()}
        counts = {"rows_in": part.rows, "rows_swapped": int(swapped.sum()), "rows_unmatched": part.rows - len(rows)}
        more = {"rows_flipped": int(met.flipped[rows].sum()), "rows_elsewhere": int((met.why == _NO_SEQUENCE).sum())}
        return Part(frame, arrays, counts | more)

    def unmatched(self, part: Part, reference: Reference, people: Part | None) -> Part:
        """The other rows of a part, and why."""
        why = self._met(part.frame, reference, people).why
        rows = np.flatnonzero(why > _SWAPPED)
        return Part(part.frame[rows].with_columns(pl.Series(REASON, [_REASONS[one] for one in why[rows].tolist()], pl.String)))

    def _met(self, frame: pl.DataFrame, reference: Reference, people: Part | None) -> _Met:
        names = _alleles_of(frame.schema)
        first, second = (frame[name].cast(pl.String).str.to_uppercase() for name in names)
        letters = [one.str.contains("^[ACGT]+$").fill_null(value=False) for one in (first, second)]
        autosomes = autosomes_of(people.frame) if people else HUMAN
        by_key = self._sequences(reference, autosomes)
        known = frame.select(chromosome_key(autosomes=autosomes).is_in([*by_key]).fill_null(value=False)).to_series()
        bases = _bases(frame, by_key, (first, second), autosomes)
        told = np.where(known.to_numpy(), _told(bases, first, second), _NO_SEQUENCE)
        why = np.where((letters[0] & letters[1]).to_numpy(), told, _NO_ALLELE)
        if self.strand == "forward":
            return _Met(first, second, why, np.zeros(len(why), np.bool_))
        other = _complement(first), _complement(second)
        turned = _told(bases, *other)
        flipped = (why == _UNLIKE) & (turned <= _SWAPPED)
        palindrome = (why <= _SWAPPED) & (first == other[1]).fill_null(value=False).to_numpy()
        why = np.where(palindrome, _PALINDROME, np.where(flipped, turned, why))
        takes = pl.Series(flipped)
        first, second = (one.zip_with(~takes, two) for one, two in zip((first, second), other, strict=True))
        return _Met(first, second, why, flipped)

    def _sequences(self, reference: Reference, autosomes: int) -> dict[str, bytes]:
        """The sequences by their chromosomes. Raises DataError for a name of `rename` that the reference has not."""
        sequences = reference.sequences()
        if lost := [name for name in self.rename if name not in sequences]:
            raise DataError(f"{reference.path} has no sequence {lost[0]!r}.{near(lost[0], sequences)}", key="rename")
        called = pl.DataFrame({"chromosome": [self.rename.get(name, name) for name in sequences]}, schema={"chromosome": pl.String()})
        return dict(zip(called.select(chromosome_key(autosomes=autosomes)).to_series(), sequences.values(), strict=True))


def _alleles_of(columns: Mapping[str, pl.DataType]) -> tuple[str, str]:
    return VARIANTS if "ref" in columns else ASSOCIATIONS


def _bases(frame: pl.DataFrame, by_key: Mapping[str, bytes], alleles: Sequence[pl.Series], autosomes: int) -> tuple[pl.Series, pl.Series]:
    """What the reference has where each of two alleles would lie; null where it has nothing, or a letter that is no base."""
    numbered = frame.select(key=chromosome_key(autosomes=autosomes), row=pl.int_range(pl.len()))
    positions = frame["base_pair_location"].cast(pl.Int64).fill_null(0).to_numpy()
    nothing = pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
    found = nothing, nothing.clone()
    for (key,), rows in numbered.group_by("key"):
        places, sequence = rows["row"].to_numpy(), by_key.get(key, b"")
        for bases, allele in zip(found, alleles, strict=True):
            lengths = allele.gather(places).str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
            bases.scatter(places, _stretches(sequence, positions[places] - 1, lengths))
    return found


def _stretches(sequence: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> pl.Series:
    """Bases of a sequence from places on, null where they are not all there or not of A, C, G and T."""
    inside = (starts >= 0) & (starts + lengths <= len(sequence)) & (lengths > 0)
    letters = np.frombuffer(sequence or b"N", np.uint8)[np.where(inside, starts, 0)]
    found = pl.Series(np.where(inside, letters, 0)).replace_strict(_LETTERS, default=None, return_dtype=pl.String)
    longer = np.flatnonzero(inside & (lengths > 1))
    texts = [
        sequence[start : start + length].decode() for start, length in zip(starts[longer].tolist(), lengths[longer].tolist(), strict=True)
    ]
    found = found.scatter(longer, pl.Series(texts, dtype=pl.String))
    return pl.select(pl.when(found.str.contains("^[ACGT]+$")).then(found)).to_series()


def _told(bases: tuple[pl.Series, pl.Series], first: pl.Series, second: pl.Series) -> NDArray[np.int8]:
    """Whether each row stays, is swapped, or is not the reference's."""
    stays, swaps = (one.eq(two).fill_null(value=False).to_numpy() for one, two in zip(bases, (first, second), strict=True))
    nothing = (bases[0].is_null() & bases[1].is_null()).to_numpy()
    told: NDArray[np.int8] = np.select([stays, swaps, nothing], [_STAYS, _SWAPPED, _NO_BASE], _UNLIKE).astype(np.int8)
    return told


def _complement(alleles: pl.Series) -> pl.Series:
    """Alleles of one letter on the other strand; longer ones would lie elsewhere there, and are none."""
    return alleles.replace_strict([*_COMPLEMENT], [*_COMPLEMENT.values()], default="", return_dtype=pl.String)


def _of_the_other(columns: Mapping[str, pl.DataType], swapped: pl.Series) -> list[pl.Expr]:
    """Numbers of an allele as those of the other, in the rows that are swapped."""
    turned = {name: -pl.col(name) for name in NEGATED} | {name: 1 - pl.col(name) for name in SHARES} | {RATIO: 1 / pl.col(RATIO)}
    for one, other in (LIMITS, LIMITS[::-1]):
        turned[one] = 1 / pl.col(other) if RATIO in columns else -pl.col(other)
    present = [name for name in turned if name in columns and (name not in LIMITS or {*LIMITS} <= {*columns})]
    return [pl.when(swapped).then(turned[name]).otherwise(name).cast(columns[name]).alias(name) for name in present]
