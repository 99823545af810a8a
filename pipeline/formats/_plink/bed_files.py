"""PLINK's binary fileset: .bed (two-bit calls, variant by variant), .bim (variants) and .fam (people), read and written.

Column 5 of the .bim, A1, is ALT and is what our calls count; column 6 is REF (PLINK 2's reading of its own .bed).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.errors import DataError, InputError
from pipeline.files import exists, read_bytes, stamp
from pipeline.formats._bgzip.blocks import reading
from pipeline.formats._plink.ids import Ids, named
from pipeline.genome.people import sex_of_code
from pipeline.genome.species import HUMAN_SET, ChromosomeSet
from pipeline.kernels.genotypes import packed_width
from pipeline.pieces import ends_with, open_pieces, with_ending

BED_MAGIC = b"\x6c\x1b\x01"
"""The first bytes of a .bed whose rows are variants; its third byte is 0 where they are samples."""

_BIM = ("chromosome", "variant_id", "centimorgan", "base_pair_location", "alt", "ref")
_FAM = ("family_id", "sample_id", "father_id", "mother_id", "sex", "phenotype")


_LOW, _HIGH = np.uint8(0x55), np.uint8(0xAA)
_SLAB_BYTES = 1 << 18  # stays in a core's cache


def _from_bed(raw: NDArray[np.uint8]) -> None:
    """Turn bytes of .bed into bytes of our calls, in place: per two bits 00 (A1 A1) is 2, 01 (missing) 3, 10 (A1 A2) 1, 11 (A2 A2) 0.

    So the low bit becomes low xor high, and the high bit turns over: whole bytes at a time, which is many times quicker than a table.
    """
    for at in range(0, len(raw), _SLAB_BYTES):
        slab = raw[at : at + _SLAB_BYTES]
        slab ^= (slab >> np.uint8(1)) & _LOW
        slab ^= _HIGH


def bim_and_fam(bed: str | Path) -> tuple[str, str]:
    """The .bim and .fam beside a .bed; InputError where the path is no .bed or one of the three is missing."""
    if not ends_with(bed, ".bed"):
        raise InputError(f"{bed}: the path of a plink input names the .bed file (its .bim and .fam lie beside it)")
    files = str(bed), with_ending(bed, ".bim"), with_ending(bed, ".fam")
    missing = [file for file in files if not exists(file)]
    if missing:
        regions = files[0] not in missing and not _begins_as_plinks(bed)
        hint = f". {bed} has no genotypes: regions of a BED file are read by format: bed" if regions else ""
        raise InputError(f"{', '.join(missing)}: no such file; a plink input is three files with one name, .bed, .bim and .fam{hint}")
    return files[1], files[2]


def _begins_as_plinks(bed: str | Path) -> bool:
    with reading(bed), open_pieces(bed) as file:
        return bool(file.read(2) == BED_MAGIC[:2])


def read_columns(path: str | Path, names: tuple[str, ...], skip: int = 0) -> pl.DataFrame:
    """The text columns, separated by any whitespace, of a table whose header of `skip` lines is left out.

    InputError where it has no lines, or where a line has another number of fields.
    """
    with reading(path):
        text = read_bytes(path)
    for _ in range(skip):
        text = text[text.find(b"\n") + 1 :] if b"\n" in text else b""
    if b" " in text or b"\t\t" in text or b"\r" in text or b"\n\t" in text or text.startswith(b"\t"):
        text = re.sub(rb"[ \t\r]+", b"\t", re.sub(rb"^[ \t]+|[ \t\r]+$", b"", text, flags=re.MULTILINE))
    if b"\n\n" in text or text.startswith(b"\n"):
        text = re.sub(rb"\n+", b"\n", text).lstrip(b"\n")
    if not text:
        raise InputError(f"{path}: the file is empty; it must have a line for each {'variant' if 'alt' in names else 'person'}")
    schema = dict.fromkeys(names, pl.String())
    try:
        frame = pl.read_csv(text, separator="\t", has_header=False, schema=schema, quote_char=None)
    except pl.exceptions.PolarsError as error:
        raise _field_count_error(path, text, names, skip) or InputError(f"{path}: cannot be read as text ({error})") from error
    # Polars fills a line that is too short with nulls.
    if frame[names[-1]].has_nulls():
        raise _field_count_error(path, text, names, skip) or InputError(
            f"{path}: a line ends with an empty field; write what it should hold"
        )
    return frame


def _field_count_error(path: str | Path, text: bytes, names: tuple[str, ...], skip: int) -> InputError | None:
    for number, line in enumerate(text.split(b"\n"), start=1 + skip):
        fields = line.count(b"\t") + 1
        if line and fields != len(names):
            return InputError(f"{path}: line {number} has {fields} fields where {len(names)} are expected: {', '.join(names)}")
    return None


def numbers(
    path: str | Path, frame: pl.DataFrame, column: str, dtype: pl.DataType, unknown: tuple[str, ...] = (), skip: int = 0
) -> pl.Series:
    """A text column as numbers, null where it says `unknown`; InputError with the line of the first text that is no number."""
    text = frame[column]
    known = text.set(text.is_in(unknown), None) if unknown else text
    values = known.cast(dtype, strict=False)
    bad = (values.is_null() & known.is_not_null()).arg_true()
    if len(bad):
        remedy = f"write one of {', '.join(unknown)} where it is unknown" if unknown else "correct it"
        raise InputError(f"{path}: line {bad[0] + skip + 1}: {column} must be a number, found {text[bad[0]]!r}; {remedy}")
    return values


def read_bim(path: str | Path, chromosomes: ChromosomeSet = HUMAN_SET) -> pl.DataFrame:
    """Variants of a .bim: chromosome, base_pair_location, variant_id, ref, alt, and centimorgan (Float64).

    Codes after the autosomes (23 to 26) read X, Y, XY, MT, other names stay. An id '.' is built as chromosome:position:ref:alt.
    InputError where a line has not six fields, a position is no number, or a chromosome is not of the species.
    """
    text = read_columns(path, _BIM)
    chromosomes.check(text["chromosome"].unique(maintain_order=True), str(path))
    frame = text.with_columns(
        pl.col("chromosome").replace(chromosomes.codes),
        numbers(path, text, "base_pair_location", pl.Int64()),
        numbers(path, text, "centimorgan", pl.Float64()),
    )
    built = pl.format("{}:{}:{}:{}", "chromosome", "base_pair_location", "ref", "alt")
    name = pl.col("variant_id")
    frame = frame.with_columns(pl.when(name == ".").then(built).otherwise(name).alias("variant_id"))
    return frame.select("chromosome", "base_pair_location", "variant_id", "ref", "alt", "centimorgan")


def read_fam(path: str | Path, ids: Ids = "iid") -> pl.DataFrame:
    """People of a .fam: sample_id (by `ids`), family_id, father_id, mother_id, sex (Int8: 1 male, 2 female, null unknown) and phenotype.

    The phenotype is Float64, null for -9 and NA; other values stay as they are.
    InputError where a line has not six fields, a phenotype is no number, or an id stands more than once.
    """
    text = named(path, read_columns(path, _FAM), ids)
    frame = text.with_columns(
        sex_of_code(),
        numbers(path, text, "phenotype", pl.Float64(), unknown=("-9", "NA", "nan", "NaN")),
    )
    phenotype = pl.when(pl.col("phenotype") != -9).then("phenotype").fill_nan(None)  # -9.0 is -9 to PLINK, too
    return frame.select("sample_id", "family_id", "father_id", "mother_id", "sex", phenotype.alias("phenotype"))


def bed_shape_check(bed: str | Path, n_variants: int, n_samples: int) -> None:
    """InputError where a .bed is missing, empty, no variant-major .bed, or not as long as its .bim and .fam say."""
    with reading(bed), open_pieces(bed) as file:
        magic = file.read(len(BED_MAGIC))
    if not magic:
        raise InputError(f"{bed}: the file is empty; give a file with data or remove this input")
    if magic == BED_MAGIC[:2] + b"\0":
        raise InputError(f"{bed}: is sample-major (an old layout); write it again with plink --make-bed")
    if magic != BED_MAGIC:
        raise InputError(f"{bed}: is not a PLINK .bed: it begins with {magic.hex(' ')}, not with {BED_MAGIC.hex(' ')}")
    expected, found = len(BED_MAGIC) + n_variants * packed_width(n_samples), stamp(bed).size
    if found != expected:
        why = "it looks truncated, copy or download it again" if found < expected else "the three files do not belong together"
        raise InputError(f"{bed}: has {found} bytes where {expected} are expected for {n_variants} variants and {n_samples} people; {why}")


def read_bed(path: str | Path, first_variant: int, n_variants: int, n_samples: int) -> NDArray[np.uint8]:
    """Packed calls `uint8[n_variants, ceil(n_samples / 4)]` of the variants from `first_variant`; InputError where the file ends before."""
    width = packed_width(n_samples)
    raw = np.empty(n_variants * width, np.uint8)
    with reading(path), open_pieces(path) as file:
        file.seek(len(BED_MAGIC) + first_variant * width)
        found = file.readinto(raw.data)
    if found != len(raw):
        raise InputError(f"{path}: ends after {found} of {len(raw)} bytes from variant {first_variant}; copy or download it again")
    _from_bed(raw)
    calls = raw.reshape(n_variants, width)
    _clear_padding(calls, n_samples)
    return calls


def _clear_padding(rows: NDArray[np.uint8], n_samples: int) -> None:
    """Set the bits after the last sample of each row to 0, as both .bed and our calls have them."""
    if n_samples % 4:
        rows[:, -1] &= (1 << 2 * (n_samples % 4)) - 1


def bed_rows(calls: NDArray[np.uint8], n_samples: int) -> bytes:
    """Packed calls `uint8[variants, ceil(n_samples / 4)]` as the bytes of a .bed that follow BED_MAGIC."""
    rows: NDArray[np.uint8] = calls ^ _HIGH
    rows ^= (rows >> np.uint8(1)) & _LOW
    _clear_padding(rows, n_samples)
    return rows.tobytes()


def bim_rows(variants: pl.DataFrame) -> bytes:
    """Lines of a .bim, of variants as read_bim gives them; a genetic position that is not there is 0."""
    return _lines(variants, _BIM, {"centimorgan": "0"})


def fam_rows(samples: pl.DataFrame) -> bytes:
    """Lines of a .fam, of samples as read_fam gives them (only sample_id must be there); what is unknown is 0, a phenotype -9."""
    unknown = {"family_id": "0", "father_id": "0", "mother_id": "0", "sex": "0", "phenotype": "-9"}
    return _lines(samples, _FAM, unknown)


def write_plink(prefix: str | Path, variants: pl.DataFrame, samples: pl.DataFrame, calls: Iterable[NDArray[np.uint8]]) -> None:
    """Write PREFIX.bed, .bim and .fam; `calls` are blocks of packed calls, whose rows are the variants in turn.

    ValueError where they are not as many.
    """
    written = 0
    with Path(f"{prefix}.bed").open("wb") as file:
        file.write(BED_MAGIC)
        for block in calls:
            file.write(bed_rows(block, len(samples)))
            written += len(block)
    if written != len(variants):
        raise ValueError(f"{written} rows of calls were given for {len(variants)} variants")
    Path(f"{prefix}.bim").write_bytes(bim_rows(variants))
    Path(f"{prefix}.fam").write_bytes(fam_rows(samples))


def _lines(frame: pl.DataFrame, names: tuple[str, ...], unknown: dict[str, str]) -> bytes:
    columns = [pl.col(name).cast(pl.String()) if name in frame.columns else pl.lit(unknown[name]).alias(name) for name in names]
    text = frame.select(columns).with_columns(pl.col(name).fill_null(value) for name, value in unknown.items())
    for name in names:
        wrong = text[name].str.contains(r"\s").arg_true()
        if len(wrong):
            raise DataError(f"{name} {text[name][wrong[0]]!r} holds a space, which separates the fields of PLINK's files; rename it before")
    return text.write_csv(separator="\t", include_header=False, quote_style="never").encode()
