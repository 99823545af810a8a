"""What a genome scan shows: Manhattan and QQ plots with the inflation of every trait, which tests ran, and the leads of its loci."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Set
from dataclasses import dataclass

import polars as pl

from pipeline.genome.chromosomes import HUMAN
from pipeline.report import plots_scan
from pipeline.report.finding import Evidence, Finding
from pipeline.report.genes import genes_of
from pipeline.report.locus_table import COLUMNS, locus_table, place_text
from pipeline.report.pieces import Figure, Grid, Note, Section, headline, number_text, p_text
from pipeline.report.scan_data import (
    CHROMOSOME,
    CLUMPED,
    GENOME_WIDE_STRENGTH,
    LINKED,
    P_VALUES,
    POSITION,
    SUGGESTIVE_STRENGTH,
    extents,
    genome_of,
    inflations,
    places_of,
    scan_rows,
    strength_bins,
    trait_counts,
)
from pipeline.report.scan_points import MOST_POINTS, data_of, points_of, told_from
from pipeline.report.svg import Panel

LOCUS_BP = 500_000
MOST_HITS, MOST_LABELS, MOST_TRAITS, MOST_LISTED = 20, 10, 6, 100


@dataclass(frozen=True)
class Most:
    """What of a scan is drawn at most, so that the page of several stays small: traits, and points that answer the pointer."""

    traits: int = MOST_TRAITS
    points: int = MOST_POINTS


class Associations(Finding, name="associations"):
    """Plots and leads of an output of p-values with places, but for those of clumps and of linkage, which have findings of their own."""

    place = 100
    columns = (CHROMOSOME, POSITION)
    any_of = P_VALUES

    def applies(self, columns: Set[str]) -> bool:
        """Whether it is a scan."""
        return super().applies(columns) and not columns >= {*LINKED} and not columns >= {*CLUMPED}

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section, whose figures at the head of the page name their scan where there are several."""
        scans = sum(self.applies(columns) for columns in evidence.columns.values())
        most = Most(max(1, MOST_TRAITS // scans), MOST_POINTS // scans)
        section = associations(output, evidence.outputs[output], genes_of(evidence.outputs, HUMAN), most)
        if scans > 1:
            section.highlights = [(figure, f"{what} in {output}") for figure, what in section.highlights]
        yield section


@dataclass(frozen=True)
class TraitScan:
    """One trait of an output: its counts (see `trait_counts`), results in bins, inflation as text, variants beyond 1e-5."""

    trait: str
    tested: int
    known: int
    weakest: float
    cut: bool
    bins: pl.DataFrame
    inflation: str
    hits: pl.DataFrame

    @property
    def of(self) -> str:
        """The trait as a part of a sentence; '' where it has no name."""
        return f" of {self.trait}" if self.trait else ""


def associations(output: str, rows: pl.LazyFrame, genes: pl.LazyFrame | None = None, most: Most | None = None) -> Section:
    """Per trait a Manhattan plot, a QQ plot with lambda, and the leads; traits beyond those with the smallest p are listed.

    Of the strongest results, so many of all traits drawn, the page tells one by one, by `genes` too (see `genes_of`).
    """
    most = most or Most()
    rows, section = scan_rows(rows), Section(headline("Associations", output))
    found = extents(rows)
    counts, genome = trait_counts(found), genome_of(found)
    if counts.height == 0:
        section.blocks.append(Note("The output has no rows."))
        return section
    if counts.height == 1:
        rows = rows.with_columns(trait=pl.lit(counts["trait"][0]))  # its column need not be read again
    listed = counts.head(MOST_LISTED).filter(pl.col("known") > 0)
    bins = strength_bins(rows, listed["trait"].to_list())
    whole = inflations(rows, {trait: bins[trait] for trait in listed.filter(~pl.col("cut"))["trait"]})
    texts = {trait: f"{value:.3f}".replace("inf", "∞") for trait, value in whole.items()}
    section.blocks += _overview(counts, texts, _tests(rows), most.traits)
    drawn = counts.head(most.traits)
    hits = _hits(rows, drawn["trait"].to_list())
    scans = [
        TraitScan(**row, bins=bins.get(row["trait"], pl.DataFrame()), inflation=texts.get(row["trait"], ""), hits=of)
        for row in drawn.select("trait", "tested", "known", pl.col("weakest").fill_null(0.0), "cut").iter_rows(named=True)
        for of in [hits.filter(pl.col("trait") == row["trait"])]
    ]
    panels = {scan.trait: plots_scan.manhattan_panel(genome, _finite_best(scan)) for scan in scans if scan.known}
    told = {scan.trait: told_from(scan.bins, most.points // len(panels)) for scan in scans if scan.known}
    places = places_of(rows, genome, panels, told) if panels else {}
    points = points_of(rows, told, None if genes is None else genes.collect(engine="streaming")) if panels else {}
    for scan in scans:
        section.blocks += _missing(scan, rows)
        if scan.known:
            _draw(section, scan, genome, places[scan.trait], panels[scan.trait], points[scan.trait])
    return section


def _finite_best(scan: TraitScan) -> float:
    finite = scan.bins.filter(pl.col("strength").is_finite())
    return float(finite["strength"][0]) if finite.height else 0.0


def _tests(rows: pl.LazyFrame) -> pl.DataFrame | None:
    """Results by trait and test where the rows say which test they carry, and any is not a linear one."""
    if "test" not in rows.collect_schema().names():
        return None
    known = rows.filter(pl.col("strength").is_not_null()).group_by("trait", test=pl.col("test").cast(pl.String).fill_null("unknown"))
    counts = known.len().collect(engine="streaming").sort("test")
    return counts if {*counts["test"]} - {"linear"} else None


def _overview(counts: pl.DataFrame, inflation: dict[str, str], tests: pl.DataFrame | None, most: int) -> list[Grid | Note]:
    """A table of traits where there are several, or several kinds of tests."""
    blocks = list[Grid | Note]()
    kinds = tests["test"].unique().sort().to_list() if tests is not None else []
    of = {(trait, test): count for trait, test, count in tests.rows()} if tests is not None else {}
    if counts.height > 1 or kinds:
        cells = [
            (t, number_text(n), number_text(h), p_text(b), inflation.get(t, ""), *(number_text(of.get((t, kind), 0)) for kind in kinds))
            for t, n, h, b in counts.head(MOST_LISTED).select("trait", "known", "hits", "best").rows()
        ]
        head = ("trait", "variants with a result", "below 5e-8", "smallest p", "λ", *(f"{kind} tests" for kind in kinds))
        more = f"The {MOST_LISTED} of {counts.height:,} traits with the smallest p-values." if counts.height > MOST_LISTED else ""
        blocks.append(Grid(head, "l" + "r" * (len(head) - 1), cells, more))
    if counts.height > most:
        drawn = "is the trait" if most == 1 else f"are the {most} traits"
        blocks.append(Note(f"Drawn {drawn} of {counts.height} with the smallest p-values."))
    return blocks


def _hits(rows: pl.LazyFrame, traits: list[str]) -> pl.DataFrame:
    """Variants beyond the suggestive line, with the columns of the table of loci."""
    has = rows.collect_schema().names()
    columns = ["trait", CHROMOSOME, POSITION, "strength", *(name for name in COLUMNS if name in has)]
    hits = rows.filter(pl.col("strength") > SUGGESTIVE_STRENGTH, pl.col("trait").is_in(traits)).select(columns).collect(engine="streaming")
    return hits.with_columns(hits["variant_id"].cast(pl.String) if "variant_id" in has else pl.lit(None, pl.String).alias("variant_id"))


def _missing(scan: TraitScan, rows: pl.LazyFrame) -> list[Note]:
    """How many variants have no result, and why."""
    if scan.known == scan.tested:
        return []
    text = f"{scan.tested - scan.known:,} of {scan.tested:,} variants{scan.of} have no result."
    if "reason" in rows.collect_schema().names():
        known = rows.filter(pl.col("trait") == scan.trait).drop_nulls("reason").group_by(pl.col("reason").cast(pl.String)).len()
        counts = known.sort("len", "reason", descending=[True, False]).head(5).collect(engine="streaming")
        why = "; ".join(f"{reason} ({count:,})" for reason, count in counts.iter_rows())
        text += f" Why: {why}." if why else ""
    return [Note(text)]


def _draw(section: Section, scan: TraitScan, genome: pl.DataFrame, places: pl.DataFrame, panel: Panel, points: pl.DataFrame) -> None:
    """Add one trait's figures and its table of loci."""
    loci = leads(scan.hits)
    hits = loci.filter(pl.col("strength") > GENOME_WIDE_STRENGTH)
    of, best = scan.of, p_text(float(scan.bins["strength"][0]))
    told = (
        f"Manhattan plot{of}: {scan.known:,} variants on {genome.height} chromosomes, {hits.height} loci below p = 5e-8, smallest p {best}"
    )
    if loci.height:
        told += f", of {loci['variant_id'][0] or 'a variant without a name'} at {place_text(loci.row(0, named=True))}"
    wide = f"{scan.known:,} variants{of}. Lines at p = 5e-8 (genome-wide) and 1e-5 (suggestive); variants beyond the first in red."
    if points.height < scan.known:
        wide += (
            f" The {points.height:,} strongest answer the pointer; others stay on the grid of the whole picture where a part is looked at."
        )
    drawn, data = plots_scan.manhattan(genome, places, panel, hits.head(MOST_LABELS), told), data_of(points, genome, panel)
    section.blocks.append(Figure(drawn, wide, size="wide", data=data))
    section.highlights.append((f"{hits.height}", f"loci below 5e-8{of}"))
    if scan.cut:
        kept = f"The rows{of} stop at p = {10**-scan.weakest:.3g}: without the rest there is no QQ plot and no inflation λ."
        section.blocks.append(Note(kept))
    else:
        told = f"QQ plot{of}: {scan.known:,} p-values against chance; genomic inflation {scan.inflation}, smallest p {best}"
        figure = plots_scan.quantile_quantile(scan.bins["strength"].to_numpy(), scan.bins["count"].to_numpy(), told)
        caption = f"p-values{of} against chance, with its 95 % band; genomic inflation λ = {scan.inflation}."
        section.blocks.append(Figure(figure, caption))
        section.highlights.append((scan.inflation, f"inflation λ{of}"))
    if loci.height == 0:
        section.blocks.append(Note(f"No variant{of} is below p = 1e-5; the smallest p is {best}."))
        return
    text = f"The leads of {loci.height:,} loci{of} below p = 1e-5, {hits.height:,} of them below 5e-8"
    text += f"; the first {MOST_HITS} are shown" if loci.height > MOST_HITS else ""
    caption = f"{text}. A locus is 500 kb to either side; others counts its variants below 1e-5 beside the lead."
    section.blocks.append(locus_table(loci.head(MOST_HITS), ["others"], caption))


def leads(hits: pl.DataFrame) -> pl.DataFrame:
    """The strongest variant of every locus, strongest first, with `others`: variants within 500 kb of it that belong to no stronger lead.

    A variant within 500 kb of a stronger lead is none itself. Needs chromosome, base_pair_location and strength.
    """
    order = ["strength", CHROMOSOME, POSITION, *(["variant_id"] if "variant_id" in hits.columns else [])]
    ordered = hits.sort(order, descending=[True] + [False] * (len(order) - 1))
    taken: dict[str, list[tuple[int, int]]] = {}
    kept, others = list[int](), dict[int, int]()
    for index, (chromosome, position) in enumerate(ordered.select(CHROMOSOME, POSITION).iter_rows()):
        near = taken.setdefault(chromosome, [])
        at = bisect(near, (position, index))
        close = [lead for lead in near[max(at - 1, 0) : at + 1] if abs(lead[0] - position) <= LOCUS_BP]
        if close:
            others[min(lead[1] for lead in close)] += 1
        else:
            near.insert(at, (position, index))
            kept.append(index)
            others[index] = 0
    return ordered[kept].with_columns(others=pl.Series([others[index] for index in kept], dtype=pl.Int64))
