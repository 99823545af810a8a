"""What is shown of loci: regional plots of the strongest with their linkage and the genes below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from pipeline.genome.chromosomes import AUTOSOME_COUNT, HUMAN, chromosome_key
from pipeline.report.finding import Evidence, Finding, Outputs
from pipeline.report.locus_table import place_text
from pipeline.report.pieces import Figure, Note, Section, headline, p_text
from pipeline.report.plots_locus import R2_STYLES, UNKNOWN_R2, gene_track, r2_bins, regional, span_bp
from pipeline.report.scan_data import CHROMOSOME, LINKED, P_VALUES, POSITION, scan_rows

MOST_REGIONS, MOST_NAMED = 6, 12
REGION, PLACE = ["trait", "index_variant_id"], [CHROMOSOME, POSITION]
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
        genes = _genes(outputs, of_locus[AUTOSOME_COUNT][0])
        section.blocks.append(_region(of_locus, trait, genes, f"; a locus of {', '.join(others)}, too" if others else ""))
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


def _region(points: pl.DataFrame, trait: str, genes: pl.LazyFrame | None, also: str) -> Figure:
    itself = points.filter(pl.col("variant_id") == pl.col("index_variant_id"))
    lead = (itself if itself.height else points).sort("strength", descending=True, maintain_order=True).row(0, named=True)
    lead["variant_id"] = lead["index_variant_id"]
    points = points.filter(pl.col(CHROMOSOME) == lead[CHROMOSOME])
    of = f"{lead['variant_id']}{f' ({trait})' if trait else ''} at {place_text(lead)}, p = {p_text(lead['strength'])}"
    told = f"{points.height:,} variants around {of}, by r² with it"
    names, svg = "", ""
    if genes is not None:
        found = _overlapping(genes, lead, span_bp(points))
        listed = found["gene_name"].head(MOST_NAMED).to_list()
        names = f"; genes: {', '.join(listed) or 'none'}" + (
            f" and {found.height - len(listed)} more" if found.height > len(listed) else ""
        )
        svg, left_out = gene_track(found, span_bp(points), f"Genes around {lead['variant_id']}{names}") if found.height else ("", 0)
        names += f" ({left_out} not drawn, for want of room)" if left_out else ""
    return Figure(regional(points, lead, f"Regional plot: {told}{names}") + svg, f"{told}{also}{names}.", _legend(points), "medium")


def _legend(points: pl.DataFrame) -> list[tuple[str, str]]:
    counts = dict(r2_bins(points).value_counts().iter_rows())
    known = [(style, f"r² {text}: {counts[number]:,}") for number, (style, text) in enumerate(R2_STYLES) if number in counts]
    return [("s5", "index variant"), *reversed(known), *([(UNKNOWN_R2, f"r² unknown: {counts[None]:,}")] if None in counts else [])]


def _genes(outputs: Outputs, autosomes: int) -> pl.LazyFrame | None:
    """Genes of the first output that has any: a key of the chromosome, start, end, gene_name and strand (null where it is not known)."""
    for rows in outputs.values():
        columns = rows.collect_schema().names()
        if {CHROMOSOME, "start", "end", "gene_name"} <= {*columns}:
            whole = rows.filter(pl.col("feature").cast(pl.String) == "gene") if "feature" in columns else rows
            strand = pl.col("strand").cast(pl.String) if "strand" in columns else pl.lit(None, pl.String)
            place = [pl.col(name).cast(pl.Int64, strict=False) for name in ("start", "end")]
            named = whole.select(pl.col(CHROMOSOME).cast(pl.String), *place, pl.col("gene_name").cast(pl.String), strand=strand)
            return (
                named.drop_nulls([CHROMOSOME, "start", "end", "gene_name"]).with_columns(key=chromosome_key(autosomes=autosomes)).unique()
            )
    return None


def _overlapping(genes: pl.LazyFrame, lead: Mapping[str, Any], span: tuple[float, float]) -> pl.DataFrame:
    key: Any = pl.select(pl.lit(lead[CHROMOSOME]).alias(CHROMOSOME)).select(chromosome_key(autosomes=lead[AUTOSOME_COUNT])).item()
    inside = genes.filter(pl.col("key") == key, pl.col("end") >= span[0], pl.col("start") <= span[1])
    return inside.sort("start", "end", "gene_name").collect(engine="streaming")
