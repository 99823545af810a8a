"""What is shown of loci: regional plots of the strongest with their linkage and the genes below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline.genome.chromosomes import AUTOSOME_COUNT, HUMAN
from pipeline.report.finding import Evidence, Finding, Outputs
from pipeline.report.genes import genes_of, overlapping
from pipeline.report.locus_table import place_text
from pipeline.report.pieces import Figure, Note, Section, headline, p_text
from pipeline.report.plots_locus import MARGIN, R2_STYLES, RIGHT, UNKNOWN_R2, gene_track, r2_bins, recombination_rates, regional, span_bp
from pipeline.report.scan_data import CHROMOSOME, LINKED, P_VALUES, POSITION, scan_rows

MOST_REGIONS, MOST_NAMED = 6, 12
REGION, PLACE = ["trait", "index_variant_id"], [CHROMOSOME, POSITION]
RATES = ("square s4", "recombination")
LOCUS_BP = 500_000  # index variants of several traits this near one another are of one locus


class Loci(Finding, name="loci"):
    """Regional plots of an output of linkage around index variants."""

    place = 300
    columns = (CHROMOSOME, POSITION, *LINKED)
    any_of = P_VALUES

    def show(self, output: str, evidence: Evidence) -> Iterator[Section]:
        """One section."""
        yield regions(output, evidence.outputs)


def regions(output: str, outputs: Outputs) -> Section:
    """A regional plot of each of the strongest index variants of a table of linkage (r2 of variants with index_variant_id)."""
    rows = scan_rows(outputs[output]).filter(pl.col("strength").is_not_null(), pl.col("index_variant_id").is_not_null())
    names = [pl.col(name).cast(pl.String) for name in ("variant_id", "index_variant_id")]
    species = pl.col(AUTOSOME_COUNT).cast(pl.Int64, strict=False) if AUTOSOME_COUNT in rows.collect_schema() else pl.lit(HUMAN)
    rows = rows.select(species.fill_null(HUMAN).alias(AUTOSOME_COUNT), "trait", CHROMOSOME, POSITION, "strength", "r2", *names)
    itself = pl.col("strength").filter(pl.col("variant_id") == pl.col("index_variant_id")).max()
    middle = [
        pl.coalesce(pl.col(at).filter(pl.col("variant_id") == pl.col("index_variant_id")).first(), pl.col(at).first()) for at in PLACE
    ]
    ranked = rows.group_by(REGION).agg(*middle, best=pl.coalesce(itself, pl.col("strength").max()))
    found = ranked.sort("best", *REGION, descending=[True, False, False]).collect(engine="streaming")
    section, found = Section(headline("Loci", output)), once_a_locus(found)
    shown = found.head(MOST_REGIONS)
    if found.height > MOST_REGIONS:
        section.blocks.append(Note(f"Drawn are the {MOST_REGIONS} of {found.height:,} index variants with the smallest p-values."))
    if found.height == 0:
        section.blocks.append(Note("No index variant has a region to draw."))
    points = (
        rows.join(shown.lazy().select(REGION), on=REGION, how="semi").sort(CHROMOSOME, POSITION, "variant_id").collect(engine="streaming")
    )
    for trait, index, others in shown.select(*REGION, "others").iter_rows():
        of_locus = points.filter(pl.col("trait") == trait, pl.col("index_variant_id") == index)
        genes = genes_of(outputs, of_locus[AUTOSOME_COUNT][0])
        around = Around(genes, _genetic_map(outputs))
        section.blocks.append(_region(of_locus, trait, around, f"; a locus of {', '.join(others)}, too" if others else ""))
    return section


def once_a_locus(found: pl.DataFrame) -> pl.DataFrame:
    """Index variants, strongest first, without those near a stronger one of another trait, whose `others` has their traits instead."""
    kept, others = list[dict[str, Any]](), list[list[str]]()
    for row in found.iter_rows(named=True):
        near = (
            number
            for number, drawn in enumerate(kept)
            if drawn["trait"] != row["trait"] and drawn[CHROMOSOME] == row[CHROMOSOME] and abs(drawn[POSITION] - row[POSITION]) <= LOCUS_BP
        )
        at = next(near, None)
        if at is None:
            kept.append(row)
            others.append([])
        elif row["trait"] not in others[at]:
            others[at].append(row["trait"])
    return pl.DataFrame(kept, schema=found.schema).with_columns(others=pl.Series(others, dtype=pl.List(pl.String)))


@dataclass(frozen=True)
class Around:
    """What other outputs say of the places of loci: genes and a genetic map, where there are any."""

    genes: pl.LazyFrame | None
    genetic_map: pl.LazyFrame | None


def _region(points: pl.DataFrame, trait: str, around: Around, also: str) -> Figure:
    itself = points.filter(pl.col("variant_id") == pl.col("index_variant_id"))
    lead = (itself if itself.height else points).sort("strength", descending=True, maintain_order=True).row(0, named=True)
    lead["variant_id"] = lead["index_variant_id"]
    points = points.filter(pl.col(CHROMOSOME) == lead[CHROMOSOME])
    of = f"{lead['variant_id']}{f' ({trait})' if trait else ''} at {place_text(lead)}, p = {p_text(lead['strength'])}"
    told = f"{points.height:,} variants around {of}, by r² with it"
    names, svg, rates = "", "", None
    if around.genetic_map is not None:
        rates = recombination_rates(around.genetic_map, lead[CHROMOSOME], span_bp(points))
    if around.genes is not None:
        found = overlapping(around.genes, lead, span_bp(points))
        listed = found["gene_name"].head(MOST_NAMED).to_list()
        names = f"; genes: {', '.join(listed) or 'none'}" + (
            f" and {found.height - len(listed)} more" if found.height > len(listed) else ""
        )
        named, right = f"Genes around {lead['variant_id']}{names}", MARGIN if rates is None else RIGHT
        svg, left_out = gene_track(found, span_bp(points), named, margin=right) if found.height else ("", 0)
        names += f" ({left_out} not drawn, for want of room)" if left_out else ""
    names += "" if rates is None else f"; recombination up to {max(rates['rate'].to_list()):.3g} cM/Mb"
    drawn = regional(points, lead, rates, f"Regional plot: {told}{names}") + svg
    return Figure(drawn, f"{told}{also}{names}.", _legend(points, [] if rates is None else [RATES]), "medium")


def _genetic_map(outputs: Outputs) -> pl.LazyFrame | None:
    """The first output of places in centimorgans, none of which is a genotype file's 0 for unknown."""
    for rows in outputs.values():
        if {CHROMOSOME, POSITION, "centimorgan"} <= {*rows.collect_schema().names()}:
            return rows.with_columns(pl.col(CHROMOSOME).cast(pl.String)).filter(pl.col("centimorgan") != 0)
    return None


def _legend(points: pl.DataFrame, more: list[tuple[str, str]]) -> list[tuple[str, str]]:
    counts = dict(r2_bins(points).value_counts().iter_rows())
    known = [(style, f"r² {text}: {counts[number]:,}") for number, (style, text) in enumerate(R2_STYLES) if number in counts]
    return [("s5", "index variant"), *reversed(known), *([(UNKNOWN_R2, f"r² unknown: {counts[None]:,}")] if None in counts else []), *more]
