"""Association results as the GWAS Catalog's summary statistics standard (GWAS-SSF 1.0): bgzipped TSV, a file a trait, with its metadata.

https://github.com/EBISPOT/gwas-summary-statistics-standard: eight columns in a fixed order with no missing value among them, others after
them, #NA where these have none; chromosomes are numbers, X 23, Y 24, MT 25.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import polars as pl

from pipeline.errors import JobError, near
from pipeline.format import JoinedOutput, Piece
from pipeline.formats._bgzip.blocks import EOF_BLOCK
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats._joined import join_files
from pipeline.genome.builds import Build, build_field
from pipeline.genome.chromosomes import AUTOSOME_COUNT, chromosome_key
from pipeline.genome.species import HUMAN_SET
from pipeline.tables.part import Part, Schema

MANDATORY: tuple[tuple[str, ...], ...] = (
    ("chromosome",),
    ("base_pair_location",),
    ("effect_allele",),
    ("other_allele",),
    ("beta", "odds_ratio", "hazard_ratio"),
    ("standard_error",),
    ("effect_allele_frequency",),
    ("p_value", "neg_log_10_p_value"),
)
"""The mandatory columns in order; of each the first that the table has."""

_NUMBERS = {**{str(number): number for number in range(1, 23)}, "X": 23, "Y": 24, "MT": 25}
_OWN = ("variant_id", "rsid", "ref_allele", "trait", "reason", "ref", "alt")  # columns that are written in another form, or not at all
_SMALLEST_P = 1e-300  # below it a p-value is written from its logarithm
_LISTING = "json"


@dataclass(frozen=True)
class _Written:
    """What a part gave for one trait's file: rows, rows left out, whether positions rise, the first and last of them, and people."""

    trait: str
    rows: int = 0
    left_out: int = 0
    is_sorted: bool = True
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    n: int | None = None

    def __add__(self, after: _Written) -> _Written:
        return replace(
            self,
            rows=self.rows + after.rows,
            left_out=self.left_out + after.left_out,
            is_sorted=self.is_sorted and after.is_sorted and not (self.last and after.first and after.first < self.last),
            first=self.first or after.first,
            last=after.last or self.last,
            n=max((n for n in (self.n, after.n) if n is not None), default=None),
        )


class GwasSsfOutput(JoinedOutput):
    """GWAS-SSF: NAME.TRAIT.tsv.gz for each trait (NAME.tsv.gz without a column trait), and NAME.TRAIT.tsv.gz-meta.yaml beside it.

    Rows are in the table's order. Left out, and counted in the metadata, are rows without a result, on other chromosomes than 1 to 22, X, Y
    and MT, and with other alleles than of A, C, G and T. other_allele is taken for REF, as the association stages have it. A p-value below
    1e-300 is written from its logarithm (3.1e-1073), where the table has that.
    """

    name = "gwas_ssf"

    build: Build = build_field()

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without a mandatory column, and for results of a species whose autosomes are not 22."""
        if AUTOSOME_COUNT in schema.columns:
            raise JobError(
                "GWAS-SSF numbers human chromosomes (X 23, Y 24, MT 25), and these are of another species. Write parquet or csv."
            )
        for names in MANDATORY:
            if not {*names} & {*columns}:
                raise JobError(
                    f"GWAS-SSF needs the column {' or '.join(names)}, which is not written here.{near(names[0], columns)} "
                    "Name it so with rename, or compute it with select."
                )

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """Each trait's rows as bgzip blocks, and a listing of them."""
        rows = part.frame
        traits = rows.partition_by("trait", as_dict=True, include_key=True) if "trait" in rows.columns else {(None,): rows}
        written, columns = dict[str, _Written](), list[str]()
        for (trait,), some in traits.items():
            lines, left_out = _lines(some)
            member = "tsv" if "trait" not in rows.columns else f"{quote(str(trait), safe='')}.tsv"
            Path(f"{path}.{member}").write_bytes(bgzip(_text(lines)))
            written[member] = _described("" if trait is None else str(trait), lines, left_out)
        columns = _lines(rows.clear())[0].columns
        listing = {"columns": columns, "members": {member: asdict(one) for member, one in written.items()}}
        Path(f"{path}.{_LISTING}").write_text(json.dumps(listing), encoding="utf-8")
        return {**{member: one.rows for member, one in written.items()}, _LISTING: 0}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """A file a trait, in the order in which traits first stand, each with its metadata; one of no rows where there are no traits."""
        listings = [json.loads(Path(piece.file(_LISTING)).read_text(encoding="utf-8")) for piece in pieces]
        header = bgzip(("\t".join(listings[0]["columns"]) + "\n").encode())
        written = dict[str, _Written]()
        for listing in listings:
            for member, described in listing["members"].items():
                one = _Written(**{**described, "first": _place(described["first"]), "last": _place(described["last"])})
                written[member] = written[member] + one if member in written else one
        files = dict[str, int | None]()
        for member, whole in (written or {"tsv": _Written("")}).items():
            parts = [piece.file(member) for piece in pieces if member in piece.rows]
            join_files(f"{stem}.{member}.gz", parts, before=header, after=EOF_BLOCK)
            join_files(f"{stem}.{member}.gz-meta.yaml", [], before=self._metadata(Path(f"{stem}.{member}.gz"), whole).encode())
            files |= {f".{member}.gz": whole.rows, f".{member}.gz-meta.yaml": None}
        return files

    def scan(self, source: Any, rest: str, dtypes: Mapping[str, pl.DataType]) -> pl.LazyFrame | None:
        """A trait's rows, with its name and the variants' own; None for metadata."""
        if not rest.endswith(".tsv.gz"):
            return None
        rows = pl.scan_csv(source, separator="\t", null_values="#NA", schema_overrides=dtypes, quote_char=None, infer_schema_length=None)
        trait = unquote(rest.removesuffix(".tsv.gz").removeprefix("."))
        named = [pl.coalesce("rsid", "variant_id").alias("variant_id")] if "rsid" in rows.collect_schema().names() else []
        return rows.with_columns(*named, *([pl.lit(trait).alias("trait")] if trait else []))

    def _metadata(self, file: Path, whole: _Written) -> str:
        """The fields of the standard's metadata that are known here, as YAML."""
        with file.open("rb") as data:
            digest = hashlib.file_digest(data, "md5").hexdigest()
        known: dict[str, Any] = {
            "file_type": "GWAS-SSF v1.0",
            "data_file_name": file.name,
            "data_file_md5sum": digest,
            "genome_assembly": self.build,
            "coordinate_system": "1-based",
            "trait_description": [whole.trait] if whole.trait else None,
            "samples": [{"sample_size": whole.n}] if whole.n is not None else None,
            "is_harmonised": False,
            "is_sorted": whole.is_sorted,
            "author_notes": f"{whole.left_out} variants without a result that the format can hold are left out" if whole.left_out else None,
        }
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in known.items() if value is not None)  # JSON is YAML


def _place(pair: list[int] | None) -> tuple[int, int] | None:
    return None if pair is None else (pair[0], pair[1])


def _lines(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows that the standard can hold, with its columns in its order (not yet text), and the number of those left out.

    Raises InputError where chromosomes are not man's: a table that lost its column `autosomes` on the way.
    """
    HUMAN_SET.check_names(rows["chromosome"].cast(pl.String).unique().sort(), "the rows to write as gwas_ssf")
    chosen = [next(name for name in names if name in rows.columns) for names in MANDATORY]
    others = [name for name in rows.columns if name not in (*chosen, *_OWN)]
    alleles = ["effect_allele", "other_allele"]
    table = rows.with_columns(
        chromosome_key().replace_strict(_NUMBERS, default=None, return_dtype=pl.Int64).alias("chromosome"),
        pl.col(alleles).cast(pl.String).str.to_uppercase(),
        *(pl.col(name).fill_nan(None) for name, dtype in rows.schema.items() if dtype.is_float()),
    )
    whole = pl.all_horizontal(pl.col(chosen).is_not_null())
    fits = (pl.col("base_pair_location") > 0) & pl.all_horizontal(pl.col(alleles).str.contains("^[ACGT]+$"))
    kept = table.filter(whole & fits)
    own = [pl.concat_str("chromosome", "base_pair_location", "other_allele", "effect_allele", separator="_").alias("variant_id")]
    if "variant_id" in rows.columns:
        own.append(pl.col("variant_id").cast(pl.String).str.extract("^(rs[0-9]+)$").alias("rsid"))
    return kept.select(*chosen, *own, pl.lit("OA").alias("ref_allele"), *others), rows.height - kept.height


def _text(lines: pl.DataFrame) -> bytes:
    """Lines of tab-separated text without a header; p-values that are too small for a double from their logarithm."""
    if "p_value" in lines.columns and "neg_log_10_p_value" in lines.columns:
        logarithm = pl.col("neg_log_10_p_value")
        exponent = logarithm.ceil()
        exact = pl.format("{}e-{}", (pl.lit(10.0) ** (exponent - logarithm)).round_sig_figs(6), exponent.cast(pl.Int64))
        small = (pl.col("p_value") < _SMALLEST_P) & logarithm.is_not_null()
        lines = lines.with_columns(pl.when(small).then(exact).otherwise(pl.col("p_value").cast(pl.String)).alias("p_value"))
    text = lines.with_columns(pl.all().cast(pl.String).fill_null("#NA"))
    return text.write_csv(include_header=False, separator="\t", quote_style="never").encode()


def _described(trait: str, lines: pl.DataFrame, left_out: int) -> _Written:
    if lines.height == 0:
        return _Written(trait, left_out=left_out)
    places = lines.select("chromosome", "base_pair_location")
    key = places.select((pl.col("chromosome") * (1 << 40) + pl.col("base_pair_location").cast(pl.Int64)).alias("key"))["key"]
    n = max(lines["n"].drop_nulls().cast(pl.Int64).to_list(), default=None) if "n" in lines.columns else None
    first, last = places.row(0), places.row(-1)
    return _Written(trait, lines.height, left_out, key.is_sorted(), (int(first[0]), int(first[1])), (int(last[0]), int(last[1])), n)
