"""What a genome scan shows: Manhattan and QQ plots, its inflation, and the leads of its loci."""

from __future__ import annotations

from bisect import bisect

import polars as pl

from pipeline.kernels.p_values import genomic_inflation
from pipeline.page import plots
from pipeline.page.pieces import Figure, Grid, Note, Section, headline, number_text, p_text

LOCUS_BP = 500_000
MOST_HITS, MOST_TRAITS = 20, 4
CHROMOSOME, POSITION = "chromosome", "base_pair_location"


def associations(output: str, rows: pl.LazyFrame) -> Section:
    """Per trait a Manhattan plot, a QQ plot with lambda, and the leads; more traits than `MOST_TRAITS` are only counted."""
    columns = rows.collect_schema().names()
    rows = rows.with_columns(_strength(columns).alias("strength"), pl.col(CHROMOSOME).cast(pl.String))
    rows = rows if "trait" in columns else rows.with_columns(trait=pl.lit(""))
    counts = rows.group_by("trait").agg(
        tested=pl.len(),
        known=pl.col("strength").count(),
        hits=(pl.col("strength") > plots.GENOME_WIDE_STRENGTH).sum(),
        best=pl.col("strength").max(),
    )
    found = counts.sort("hits", "best", "trait", descending=[True, True, False], nulls_last=True).collect()
    section = Section(headline("Associations", output))
    if found.height > 1:
        cells = [
            (t or "", number_text(n), number_text(h), p_text(b)) for t, n, h, b in found.select("trait", "known", "hits", "best").rows()
        ]
        section.blocks.append(Grid(("trait", "variants with a result", "below 5e-8", "smallest p"), "lrrr", cells[:100]))
    if found.height > MOST_TRAITS:
        section.blocks.append(Note(f"Drawn are the {MOST_TRAITS} traits of {found.height} with the most hits."))
    for trait, tested in found.select("trait", "tested").head(MOST_TRAITS).iter_rows():
        _scan(section, rows.filter(pl.col("trait").eq_missing(trait)), str(trait or ""), tested)
    if found.height == 0:
        section.blocks.append(Note("The output has no rows."))
    return section


def _strength(columns: list[str]) -> pl.Expr:
    """-log10 p: its own column where there is one, else from the p-value; null where there is no result."""
    known = [pl.col("neg_log_10_p_value").cast(pl.Float64, strict=False).fill_nan(None)] if "neg_log_10_p_value" in columns else []
    if "p_value" in columns:
        p_value = pl.col("p_value").cast(pl.Float64, strict=False)
        known.append(pl.when(p_value.is_between(0, 1)).then(-p_value.log10()))
    return pl.coalesce(known)


def _scan(section: Section, rows: pl.LazyFrame, trait: str, tested: int) -> None:
    """Add one trait's plots and table."""
    placed = rows.drop_nulls([CHROMOSOME, POSITION, "strength"])
    points = placed.select(CHROMOSOME, pl.col(POSITION).cast(pl.Int64), "strength").collect()
    of = f" of {trait}" if trait else ""
    if points.height < tested:
        section.blocks.append(Note(f"{tested - points.height:,} of {tested:,} variants{of} have no result.{_reasons(rows)}"))
    if points.height == 0:
        return
    best = placed.filter(pl.col("strength") > plots.SUGGESTIVE_STRENGTH).collect()
    loci = leads(best)
    hits = loci.filter(pl.col("strength") > plots.GENOME_WIDE_STRENGTH)
    strengths = points["strength"].sort(descending=True).to_numpy()
    inflation = f"{genomic_inflation(10.0**-strengths):.3f}".replace("inf", "∞")
    labelled = hits if "variant_id" in hits.columns else hits.with_columns(variant_id=pl.lit(None, pl.String))
    wide = f"{points.height:,} variants{of}. Lines at p = 5e-8 (genome-wide) and 1e-5 (suggestive); variants beyond the first in red."
    quantiles = f"p-values{of} against chance, with its 95 % band; genomic inflation λ = {inflation}."
    section.blocks.append(Figure(plots.manhattan(points, labelled.head(10)), wide, size="wide"))
    section.blocks.append(Figure(plots.quantile_quantile(strengths), quantiles))
    section.highlights += [(f"{hits.height}", f"loci below 5e-8{of}"), (inflation, f"inflation λ{of}")]
    if loci.height:
        section.blocks.append(_hits(loci, hits.height, of))
    else:
        section.blocks.append(Note(f"No variant{of} is below p = 1e-5; the smallest p is {p_text(float(strengths[0]))}."))


def _reasons(rows: pl.LazyFrame) -> str:
    if "reason" not in rows.collect_schema().names():
        return ""
    counts = rows.drop_nulls("reason").group_by("reason").len().sort("len", "reason", descending=[True, False]).head(5).collect()
    return f" Why: {'; '.join(f'{reason} ({count:,})' for reason, count in counts.iter_rows())}." if counts.height else ""


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


def _hits(loci: pl.DataFrame, significant: int, of: str) -> Grid:
    shown = loci.head(MOST_HITS)
    effect = ("effect_allele", "other_allele")
    columns = [name for name in ("effect_allele_frequency", "beta", "standard_error", "n") if name in loci.columns]
    rows = []
    for row in shown.iter_rows(named=True):
        alleles = [f"{row[effect[0]] or '?'} / {row[effect[1]] or '?'}"] if {*effect} <= {*loci.columns} else []
        place = f"{row[CHROMOSOME]}:{row[POSITION]:,}"
        numbers = [_cell(name, row[name]) for name in columns]
        rows.append([row.get("variant_id") or "", place, *alleles, *numbers, p_text(row["strength"]), number_text(row["others"])])
    head = ["variant", "place", *(["effect / other"] if {*effect} <= {*loci.columns} else [])]
    words = {"effect_allele_frequency": "frequency", "standard_error": "SE"}
    head += [*(words.get(name, name) for name in columns), "p", "others"]
    text = f"The leads of {loci.height} loci{of} below p = 1e-5, {significant} of them below 5e-8"
    text += f"; the first {MOST_HITS} are shown" if loci.height > MOST_HITS else ""
    caption = f"{text}. A locus is 500 kb to either side; others counts its variants below 1e-5 beside the lead."
    return Grid(head, "l" * (len(head) - len(columns) - 2) + "r" * (len(columns) + 2), rows, caption)


def _cell(name: str, value: float | None) -> str:
    if value is None or name == "n":
        return number_text(value)
    return f"{value:.3f}" if name == "effect_allele_frequency" else f"{value:.3g}"
