"""Scoring files of the PGS Catalog: the weights of a polygenic score, plain or gzipped, as polygenic_score reads them; and written.

https://www.pgscatalog.org/downloads/#dl_ftp_scoring; Lambert et al. (2021), Nat Genet 53:420-425.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import Field

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import DataError, InputError, JobError
from pipeline.files import Stamp, stamp
from pipeline.format import CostlySource, JoinedOutput, Piece
from pipeline.formats._bgzip.blocks import EOF_BLOCK
from pipeline.formats._bgzip.lines import whole_text
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats._bounded import BoundedInput
from pipeline.formats._joined import join_files
from pipeline.genome.builds import Build, build_field, build_in_text
from pipeline.genome.columns import dtypes_of
from pipeline.genome.inputs import PlacedInput
from pipeline.tables.part import Part, Schema

Positions = Literal["auto", "harmonised", "reported"]
WEIGHTS = pl.Schema(
    {**dtypes_of(("chromosome", "base_pair_location", "variant_id", "effect_allele", "other_allele")), "weight": pl.Float64()}
)
_HARMONISED = ("hm_chr", "hm_pos")
_OTHER_MODELS = ("is_interaction", "is_dominant", "is_recessive", "is_haplotype", "is_diplotype")
_PLACE = ("chromosome", "base_pair_location", "effect_allele")
_WRITTEN = ("rsID", "chr_name", "chr_position", "effect_allele", "other_allele", "effect_weight")
_UNKNOWN = ("", "NA", "nan", ".")


@dataclass(frozen=True)
class PgsCatalogSource(CostlySource):
    """One file."""

    path: str
    known: Stamp
    positions: Positions
    limits: Bounds = DEFAULTS

    def load(self) -> Part:
        """A row a weight. Raises InputError for a file that is none, and for weights that are not of each copy of an allele."""
        return Part(_weights(self.path, self.known, self.positions, self.limits))


class PgsCatalogInput(PlacedInput, BoundedInput):
    """A scoring file of the PGS Catalog: chromosome, base_pair_location, variant_id, effect_allele, other_allele and weight.

    variant_id is the rsID, else chromosome:position. A weight without a harmonised position has none. Files with weights for two copies,
    for heterozygotes or for pairs of variants are refused: a sum of weight x alleles would be wrong. The build is that of the positions.
    """

    name = "pgs_catalog"

    positions: Positions = Field(
        "auto", description="harmonised: hm_chr and hm_pos; reported: chr_name and chr_position; auto: harmonised where the file has them."
    )

    def table_schema(self) -> Schema:
        """The columns; the files' headers are read. Raises InputError where one has none of the columns that are needed."""
        for path in self.files():
            _header(path, stamp(path), self.positions, self.limits)
        return Schema(WEIGHTS)

    def genome_build(self) -> str | None:
        """As the job says, else as the first file's header does."""
        path = self.files()[0]
        told, names, _ = _header(path, stamp(path), self.positions, self.limits)
        key = "HmPOS_build" if "hm_pos" in names else "genome_build"
        return self.build or build_in_text(told.get(key, ""))

    def sources(self, parallel: int) -> Sequence[PgsCatalogSource]:
        """One a file."""
        return [PgsCatalogSource(path, stamp(path), self.positions, self.limits) for path in self.files()]


@lru_cache(maxsize=8)
def _text(path: str, _known: Stamp, limits: Bounds) -> str:
    """The text of a file, read once while it is unchanged."""
    return whole_text(path, limits)


def _header(path: str, known: Stamp, positions: Positions, limits: Bounds) -> tuple[Mapping[str, str], dict[str, str], int]:
    """What the lines before the table say, the columns that are read by our names, and how many lines stand before them."""
    lines = _text(path, known, limits).splitlines()
    count = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    told = dict(line.lstrip("#").split("=", 1) for line in lines[:count] if "=" in line)
    names = lines[count].split("\t") if count < len(lines) else []
    if "effect_allele" not in names or "effect_weight" not in names:
        raise InputError(f"{path}: is no scoring file of the PGS Catalog: its columns are {', '.join(names[:8]) or 'none'}")
    harmonised = {*_HARMONISED} <= {*names} and positions != "reported"
    if positions == "harmonised" and not harmonised:
        raise InputError(f"{path}: has no columns hm_chr and hm_pos. Take the harmonised file of the build, or positions: reported.")
    place = dict(zip(_HARMONISED if harmonised else ("chr_name", "chr_position"), ("chromosome", "base_pair_location"), strict=True))
    place |= {"hm_rsID": "name"} if harmonised and "hm_rsID" in names else {"rsID": "name"}
    other = "other_allele" if "other_allele" in names or "hm_inferOtherAllele" not in names else "hm_inferOtherAllele"
    wanted = {**place, "effect_allele": "effect_allele", other: "other_allele", "effect_weight": "weight"}
    return told, {name: ours for name, ours in wanted.items() if name in names}, count


def _weights(path: str, known: Stamp, positions: Positions, limits: Bounds) -> pl.DataFrame:
    _, names, skip = _header(path, known, positions, limits)
    text = _text(path, known, limits).encode()
    try:
        rows = pl.read_csv(text, separator="\t", skip_lines=skip, infer_schema=False, quote_char=None, null_values=[*_UNKNOWN])
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: a line has another number of fields than the columns ({error})") from error
    for name in _OTHER_MODELS:
        if name in rows.columns and rows[name].str.to_lowercase().is_in(["true", "1", "yes"]).any():
            raise InputError(f"{path}: has weights that are not of each copy of an allele ({name}), which no score here has")
    found = rows.select(pl.col(name).alias(ours) for name, ours in names.items())
    found = found.with_columns(pl.lit(None, pl.String).alias(name) for name in (*WEIGHTS, "name") if name not in found.columns)
    for name in ("base_pair_location", "weight"):
        numbers = found[name].cast(WEIGHTS[name], strict=False)
        bad = (numbers.is_null() & found[name].is_not_null()).arg_true()
        if len(bad):
            raise InputError(f"{path}: line {bad[0] + skip + 2}: {name} must be a number, found {found[name][bad[0]]!r}; correct it")
        found = found.with_columns(numbers)
    place = pl.format("{}:{}", "chromosome", "base_pair_location")
    return found.with_columns(variant_id=pl.coalesce(pl.col("name").str.extract(r"^(rs\d+)$"), place, "name")).select(WEIGHTS.names())


class PgsCatalogOutput(JoinedOutput):
    """A scoring file of the PGS Catalog, NAME.txt.gz, bgzipped: weights of one trait, such as clump's or whole_genome_regression's.

    The table needs chromosome, base_pair_location, effect_allele and the column of weights; other_allele, and of variant_id the rsIDs, are
    written where they are there. Rows without a place, an allele or a weight stop the run.
    """

    name = "pgs_catalog"

    weight: str = Field("weight", min_length=1, description="The column of weights: beta of a scan's results, say.")
    trait: str = Field("", pattern=r"^[^\r\n]*$", description="What the file says the trait is.")
    build: Build = build_field()

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without a column that is needed, and for weights that are no numbers."""
        if missing := [name for name in (*_PLACE, self.weight) if name not in columns]:
            needed = ", ".join((*_PLACE, self.weight))
            raise JobError(f"a scoring file needs the column {missing[0]!r}, which is not written here. Needed: {needed}")
        if not schema.columns[self.weight].is_numeric():
            raise JobError(f"column {self.weight!r} is {schema.columns[self.weight]}, and weights are numbers. Cast it.")

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The lines, and the traits that there are. DataError for a row that the format cannot hold."""
        frame = part.frame
        bad = frame.filter(pl.any_horizontal(pl.col(*_PLACE, self.weight).is_null()) | ~pl.col(self.weight).cast(pl.Float64).is_finite())
        for row in bad.head(1).select(*_PLACE, self.weight).iter_rows(named=True):
            shown = ", ".join(f"{name} {value!r}" for name, value in row.items())
            raise DataError(f"a scoring file cannot hold the weight with {shown}: all must be there. Filter it out.")
        nothing = pl.lit(None, pl.String)
        ids = pl.col("variant_id").cast(pl.String).str.extract(r"^(rs\d+)$") if "variant_id" in frame.columns else nothing
        other = pl.col("other_allele").cast(pl.String) if "other_allele" in frame.columns else nothing
        lines = frame.select(ids.alias("rsID"), *_PLACE, other.alias("other_allele"), self.weight)
        traits = frame["trait"].cast(pl.String).unique(maintain_order=True).drop_nulls().to_list() if "trait" in frame.columns else []
        Path(f"{path}.traits").write_text("\n".join(traits), encoding="utf-8")
        Path(f"{path}.txt").write_bytes(bgzip(lines.write_csv(include_header=False, separator="\t", quote_style="never").encode()))
        return {"txt": frame.height, "traits": 0}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """The file. DataError for the weights of several traits."""
        texts = (Path(piece.file("traits")).read_text(encoding="utf-8") for piece in pieces)
        traits = [*dict.fromkeys(trait for text in texts for trait in text.split("\n") if trait)]
        if len(traits) > 1:
            raise DataError(f"a scoring file has the weights of one trait, and these are of {', '.join(traits[:5])}. Filter by trait.")
        rows = sum(piece.rows["txt"] for piece in pieces)
        told = {
            "format_version": "2.0", "pgs_name": Path(stem).name, "trait_reported": self.trait or "".join(traits) or "NR",
            "genome_build": self.build or "NR", "variants_number": rows,
        }  # fmt: skip
        head = "###PGS CATALOG SCORING FILE - see https://www.pgscatalog.org/downloads/#dl_ftp_scoring for additional information\n"
        head += "".join(f"#{key}={value}\n" for key, value in told.items()) + "\t".join(_WRITTEN) + "\n"
        join_files(f"{stem}.txt.gz", [piece.file("txt") for piece in pieces], before=bgzip(head.encode()), after=EOF_BLOCK)
        return {".txt.gz": rows}
