"""Loci of a scan: associations around some places with the linkage disequilibrium of their variants in a panel. Not a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.backend.arrays import to_host
from pipeline.errors import DataError
from pipeline.genome.chromosomes import AUTOSOME_COUNT, autosomes_of, natural_order
from pipeline.genome.columns import need_known
from pipeline.genome.genotypes import need_genotypes, people_of
from pipeline.genome.inputs import OTHER_SPECIES
from pipeline.genome.people import check_sex
from pipeline.kernels.ld_scores import ld_matrix
from pipeline.kernels.linkage import without_haploid_heterozygotes
from pipeline.stage import Context
from pipeline.stages.genomics._genotypes import calls_in
from pipeline.stages.genomics._linkage import chosen_calls
from pipeline.tables.counts import Count
from pipeline.tables.part import ROW, Part, Schema, added_counts, take
from pipeline.tables.table import Table

PLACE = ("chromosome", "base_pair_location", "variant_id")
ALLELES = ("effect_allele", "other_allele")
NEEDED = (*PLACE, *ALLELES, "beta", "standard_error", "n")
"""Columns that a scan's rows must have."""
COUNTS: Mapping[str, Count] = {
    "loci": Count("loci"),
    "variants": Count("variants in loci"),
    "without_effect": Count("rows without an effect"),
    "unmatched": Count("without calls", always=True),
    "not_varying": Count("without variation in the panel"),
}
CALLS_ROW = "__calls__"
"""The row of the genotypes that an association is of."""


class Place(NamedTuple):
    """A stretch of a chromosome, both ends in it; of one trait, or of a table without traits."""

    trait: str | None
    chromosome: str
    low: int
    high: int

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.chromosome}:{self.low}-{self.high}"


@dataclass(frozen=True)
class Locus:
    """The v associations of a locus whose variants vary in the panel, in order of position.

    `z: float64[v]` is of ALT, `sign` is -1 where the effect is not, `r: float64[v, v]` of calls. `counts` tell of rows that are left out.
    """

    place: Place
    rows: pl.DataFrame
    z: NDArray[np.float64]
    sign: NDArray[np.float64]
    r: NDArray[np.float64]
    counts: dict[str, int]


@dataclass(frozen=True)
class Found:
    """What a stage finds of a locus: rows of its own table, of a second one, and counts."""

    own: pl.DataFrame
    second: pl.DataFrame
    counts: Mapping[str, int]


def need_loci(schemas: Mapping[str, Schema]) -> None:
    """Raise StageError where the associations, the genotypes or the loci lack a column that every stage of loci needs."""
    need_known(schemas["associations"], NEEDED, "associations")
    check_sex(need_genotypes(schemas["genotypes"], (*PLACE, "ref", "alt"), dosages=True))
    need_known(schemas["loci"], PLACE[:2], "loci")


def each_locus(tables: Mapping[str, Table], context: Context, reach: int, most: int, work: Callable[..., Found], *more: Any) -> list[Any]:
    """Futures of what `work(Locus, *more)` makes of the loci, in as many tasks as compute at once: each has every so many-th."""
    session, name = context.session, context.name
    given, genotypes = ((table if table.cheap else table.hold()).named(name) for table in (tables["associations"], tables["genotypes"]))
    places = session.submit(places_of, tables["loci"].named(name).value(), reach, traits_of(given), stage=name)
    rows, calls = (table.map_parts(near, places).value() for table in (given, genotypes))
    people, lanes = people_of(genotypes), session.workers * session.threads
    return [session.submit(_worked, work, (lane, lanes), places, (rows, calls, people), most, *more, stage=name) for lane in range(lanes)]


def _worked(
    work: Callable[..., Found], lane: tuple[int, int], places: list[Place], parts: tuple[Part, Part, Part], most: int, *more: Any
) -> list[Found]:
    return [work(locus_of(place, *parts, most), *more) for place in places[lane[0] :: lane[1]]]


def joined(columns: Sequence[pl.Schema], *lanes: list[Found]) -> tuple[Part, Part, dict[str, int]]:
    """The tables of all loci in order, with these columns, and their counts."""
    longest = max(len(lane) for lane in lanes)
    found = [lane[turn] for turn in range(longest) for lane in lanes if turn < len(lane)]
    tables = []
    for schema, frames in zip(columns, ([each.own for each in found], [each.second for each in found]), strict=True):
        cast = [pl.col(name).cast(dtype) for name, dtype in schema.items()]
        tables.append(Part(pl.concat([pl.DataFrame(schema=schema), *(frame.select(cast) for frame in frames if frame.height)])))
    return tables[0], tables[1], added_counts([each.counts for each in found])


def places_of(loci: Part, reach: int, traits: Part | None) -> list[Place]:
    """The loci's surroundings, `reach` base pairs on either side; those of a trait that overlap are one. In order.

    Loci without a trait are of all `traits`, where associations have some.
    """
    rows = loci.frame.drop_nulls(("chromosome", "base_pair_location"))
    if traits is None:
        rows = rows.with_columns(trait=pl.lit(None, pl.String))
    elif "trait" not in rows.columns:
        rows = rows.join(traits.frame, how="cross")
    places: list[Place] = []
    each = sorted(
        rows.select("trait", "chromosome", "base_pair_location").iter_rows(),
        key=lambda row: (row[0] is None, row[0] or "", natural_order(row[1]), row[1], row[2]),
    )
    for trait, chromosome, position in each:
        low, high = max(int(position) - reach, 1), int(position) + reach
        last = places[-1] if places else None
        if last and (last.trait, last.chromosome) == (trait, chromosome) and low <= last.high:
            places[-1] = last._replace(high=high)
        else:
            places.append(Place(trait, chromosome, low, high))
    return places


def traits_of(associations: Table) -> Any:
    """The traits that associations have, as a part; None where they have no such column."""
    schema = associations.schema
    if schema is None or "trait" not in schema.columns:
        return None
    each = associations.map(lambda rows: rows.select("trait").unique())
    return each.gather().map(lambda rows: rows.unique().sort("trait")).value()


def near(part: Part, places: list[Place]) -> Part:
    """The rows that lie in one of the places, with their calls alone: of dosages, those nearest to them."""
    frame = part.frame.with_row_index(ROW)
    chromosome, position = frame["chromosome"], frame["base_pair_location"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    inside = np.zeros(frame.height, np.bool_)
    for name, of_it in groupby(sorted({place[1:] for place in places}), key=lambda stretch: stretch[0]):
        stretches = list(of_it)
        rows = (chromosome == name).arg_true().to_numpy()
        lows, highs = (np.array([stretch[end] for stretch in stretches], float) for end in (1, 2))
        before = np.searchsorted(lows, position[rows], "right") - 1
        farthest = np.maximum.accumulate(highs)
        inside[rows] = (before >= 0) & (position[rows] <= farthest[np.maximum(before, 0)])
    found = frame.filter(inside)
    if not part.arrays:
        return Part(found.drop(ROW))
    chosen = part.with_frame(found)
    return Part(chosen.frame, {"calls": calls_in(chosen)})


def locus_of(place: Place, associations: Part, calls: Part, people: Part, most: int) -> Locus:
    """A locus of at most so many variants. Raises DataError for more, and where no association finds its calls."""
    need_one_species(associations.frame, people.frame)
    within = pl.col("base_pair_location").is_between(place.low, place.high) & (pl.col("chromosome") == place.chromosome)
    rows = associations.frame.filter(within)
    rows = rows if place.trait is None else rows.filter(pl.col("trait") == place.trait)
    usable = rows.filter(
        pl.col("beta").is_finite() & pl.col("standard_error").is_finite() & (pl.col("standard_error") > 0) & (pl.col("n") > 2)
    )
    matched = matched_rows(usable, calls.frame).sort("base_pair_location", CALLS_ROW).unique(CALLS_ROW, keep="first", maintain_order=True)
    if matched.is_empty() and usable.height:
        raise DataError(f"no association of locus {place.name} finds its calls. {examples_of(usable, calls.frame)}")
    if matched.height > most:
        raise DataError(
            f"locus {place.name} has {matched.height:,} variants, and linkage of {most:,} at most is looked at, for it is a matrix. Give a "
            "smaller kb, fewer loci side by side, or a larger max_variants."
        )
    found = matched[CALLS_ROW].to_numpy()
    packed, samples = chosen_calls(take(calls.arrays["calls"], found), people.frame, place.chromosome)
    r = to_host(ld_matrix(without_haploid_heterozygotes(packed, samples), samples.count))
    varies = np.isfinite(r.diagonal())
    counts = {
        "without_effect": rows.height - usable.height,
        "unmatched": usable.height - matched.height,
        "not_varying": int((~varies).sum()),
        "variants": int(varies.sum()),
    }
    matched, found, r = matched.filter(varies), found[varies], r[np.ix_(varies, varies)]
    sign = np.where(matched["effect_allele"].to_numpy() == calls.frame["alt"].gather(found).to_numpy(), 1.0, -1.0)
    z = sign * (matched["beta"] / matched["standard_error"]).cast(pl.Float64).to_numpy()
    return Locus(place, matched.drop(CALLS_ROW), z, sign, r, counts)


def need_one_species(associations: pl.DataFrame, people: pl.DataFrame) -> None:
    """Raise DataError where associations and people are of different chromosome sets."""
    if AUTOSOME_COUNT in associations.columns and (theirs := autosomes_of(associations)) != (ours := autosomes_of(people)):
        sets = f"{theirs} {AUTOSOME_COUNT} and {ours}"
        raise DataError(f"associations and genotypes are of different chromosome sets, {sets}, {OTHER_SPECIES}")


def matched_rows(associations: pl.DataFrame, variants: pl.DataFrame) -> pl.DataFrame:
    """The associations with the row of their variant, the first where several are alike: same id and place, and the alleles either way."""
    calls = variants.select(*PLACE, pl.min_horizontal("ref", "alt").alias("__a__"), pl.max_horizontal("ref", "alt").alias("__b__"))
    calls = calls.with_row_index(CALLS_ROW).unique([*PLACE, "__a__", "__b__"], keep="first", maintain_order=True)
    calls = calls.cast({"base_pair_location": associations.schema["base_pair_location"], CALLS_ROW: pl.Int64})
    alleles = {"__a__": pl.min_horizontal(*ALLELES), "__b__": pl.max_horizontal(*ALLELES)}
    matched = associations.with_columns(**alleles).join(calls, on=[*PLACE, "__a__", "__b__"], how="inner", maintain_order="left")
    return matched.drop("__a__", "__b__").with_columns(__row__=pl.int_range(pl.len()))


def examples_of(hits: pl.DataFrame, variants: pl.DataFrame) -> str:
    """One of the associations, and what the genotypes have under its id."""
    first = hits.row(0, named=True)
    ours = (
        f"{first['variant_id']} is at {first['chromosome']}:{first['base_pair_location']} {first['effect_allele']}/{first['other_allele']}"
    )
    same = variants.filter(pl.col("variant_id") == first["variant_id"])
    if same.is_empty():
        return f"{ours}, and no variant of the genotypes has its id. Are the ids written alike, and is it the same cohort?"
    other = same.row(0, named=True)
    theirs = f"{other['chromosome']}:{other['base_pair_location']} {other['ref']}/{other['alt']}"
    return f"{ours} in the associations and at {theirs} in the genotypes. Are chromosome names, builds and alleles the same?"
