"""Genotypes of samples as the lines of a VCF, from a table with a row a variant and sample (VCF 4.2, section 1 of its specification)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.errors import DataError

SITE = ("chromosome", "base_pair_location", "ref", "alt")
CALL = (*SITE, "sample_id", "genotype")
MORE = ("variant_id", "call_quality", "genotype_quality", "depth", "ref_depth", "alt_depth")
_GENOTYPE = r"^[0-9]+([/|][0-9]+)?$"
_FIELDS = {
    "GT": ("genotype", "1", "String", "Genotype"),
    "GQ": ("genotype_quality", "1", "Integer", "-10 log10 of the probability that the genotype is wrong"),
    "DP": ("depth", "1", "Integer", "Reads used"),
    "AD": ("ref_depth", "R", "Integer", "Reads used that have REF, and ALT"),
}
_DESCRIBED = {**_FIELDS, "DS": ("", "A", "Float", "Copies of ALT that are expected")}


def checked(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that a VCF can hold. DataError for a place, an allele or a genotype that is none."""
    bad = rows.filter(
        pl.any_horizontal(pl.col(*SITE, "sample_id").is_null())
        | ~pl.col("genotype").str.contains(_GENOTYPE).fill_null(True)
        | pl.any_horizontal(pl.col("chromosome", "ref", "alt", "sample_id").str.contains(r"^$|\s"))
    )
    if bad.height:
        shown = ", ".join(f"{name} {bad[name][0]!r}" for name in CALL)
        raise DataError(f"a VCF cannot hold the row with {shown}: places, alleles and samples must be there, a genotype is 0/1 or null.")
    return rows


def fields_of(columns: Sequence[str]) -> list[str]:
    """The fields that a table's columns make."""
    return [field for field, (name, *_) in _FIELDS.items() if name in columns and (field != "AD" or "alt_depth" in columns)]


def header_of(
    chromosomes: Sequence[str], samples: Sequence[str], fields: Sequence[str], build: str | None, sites: Sequence[str] = ()
) -> str:
    """What stands before the lines; `sites` are lines of further FILTER and INFO fields."""
    assembly = f",assembly={build}" if build else ""
    described = (
        f'##FORMAT=<ID={field},Number={number},Type={kind},Description="{said}">'
        for field, (_, number, kind, said) in _DESCRIBED.items()
        if field in fields
    )
    head = ("#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *samples)
    return "\n".join(
        (
            "##fileformat=VCFv4.2",
            '##FILTER=<ID=PASS,Description="All filters passed">',
            '##INFO=<ID=AC,Number=A,Type=Integer,Description="Copies of ALT">',
            '##INFO=<ID=AN,Number=1,Type=Integer,Description="Copies of any allele that was called">',
            *sites,
            *described,
            *(f"##contig=<ID={name}{assembly}>" for name in chromosomes),
            "\t".join(head) + "\n",
        )
    )


def lines_of(rows: pl.DataFrame, samples: Sequence[str], fields: Sequence[str]) -> bytes:
    """A line a variant, by chromosome as these first stand, and position; a sample without a row is missing. DataError for two rows."""
    twice = rows.filter(rows.select(*SITE, "sample_id").is_duplicated())
    if twice.height:
        site = ":".join(str(twice[name][0]) for name in SITE)
        raise DataError(
            f"sample {twice['sample_id'][0]!r} has several rows of variant {site}, and a VCF has one of each. Keep one (drop_duplicates)."
        )
    order = rows.select(pl.col("chromosome").unique(maintain_order=True)).with_row_index("order")
    given = {name: pl.col(name).first() for name in ("variant_id", "call_quality") if name in rows.columns}
    copies = pl.col("genotype").str.extract_all(r"[0-9]+")
    sites = rows.group_by(SITE, maintain_order=True).agg(
        *given.values(),
        copies.list.eval(pl.element() == "1").list.sum().sum().alias("AC"),
        copies.list.len().sum().alias("AN"),
    )
    sites = sites.join(order, on="chromosome").sort("order", *SITE[1:]).with_row_index("site")
    grid = sites.select("site", *SITE).join(pl.DataFrame({"sample_id": pl.Series(samples, dtype=pl.String)}), how="cross")
    texts = [_text(field) for field in fields]
    values = (
        grid.join(rows, on=[*SITE, "sample_id"], how="left")
        .sort("site", "sample_id")
        .select("site", pl.concat_str(texts, separator=":").alias("values"))
    )
    joined = values.group_by("site", maintain_order=True).agg(pl.col("values").str.join("\t"))
    name = pl.col("variant_id").str.replace_all(r"\s", "_").fill_null(".") if "variant_id" in given else pl.lit(".")
    quality = pl.col("call_quality").round(2).cast(pl.String).fill_null(".") if "call_quality" in given else pl.lit(".")
    table = sites.join(joined, on="site", maintain_order="left").select(
        *SITE[:2], name.alias("ID"), *SITE[2:], quality.alias("QUAL"), pl.lit("PASS").alias("FILTER"),
        pl.format("AC={};AN={}", "AC", "AN").alias("INFO"), pl.lit(":".join(fields)).alias("FORMAT"), "values",
    )  # fmt: skip
    return table.write_csv(include_header=False, separator="\t", quote_style="never").encode()


def _text(field: str) -> pl.Expr:
    if field == "GT":
        return pl.col("genotype").fill_null("./.")
    value = pl.col(_FIELDS[field][0]).cast(pl.Int64).cast(pl.String).fill_null(".")
    if field == "AD":
        return (
            pl.when(pl.col("ref_depth").is_null())
            .then(pl.lit("."))
            .otherwise(pl.concat_str(value, pl.col("alt_depth").cast(pl.Int64), separator=","))
        )
    return value
