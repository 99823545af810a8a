from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pipeline.errors import DataError, InputError
from pipeline.formats._plink import bed_files
from pipeline.formats._plink.bed_files import bed_shape_check, bim_and_fam, fam_rows, read_bed, read_bim, read_fam, write_plink

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there")


def read_all(bed: Path) -> tuple[pl.DataFrame, pl.DataFrame, NDArray[np.uint8]]:
    bim, fam = bim_and_fam(bed)
    variants, people = read_bim(bim), read_fam(fam)
    bed_shape_check(bed, len(variants), len(people))
    return variants, people, read_bed(bed, 0, len(variants), len(people))


def codes(packed: NDArray[np.uint8], n_samples: int) -> NDArray[np.uint8]:
    """Codes `uint8[v, n]`, unpacked the slow way."""
    return np.stack([packed[:, s // 4] >> 2 * (s % 4) & 3 for s in range(n_samples)], axis=1)


def write_fileset(folder: Path, bim: str = "1 rs1 0 10 A C\n", fam: str = "f a 0 0 1 -9\nf b 0 0 2 -9\n", bed: str = "6c1b0102") -> Path:
    (folder / "x.bim").write_text(bim)
    (folder / "x.fam").write_text(fam)
    (folder / "x.bed").write_bytes(bytes.fromhex(bed))
    return folder / "x.bed"


@needs_data
def test_read_bed__counts_of_hapmap3_are_plinks() -> None:
    variants, people, packed = read_all(DATA / "hapmap3" / "data.bed")
    calls = codes(packed, len(people))
    printed = pl.read_csv(
        DATA / "reference" / "hapmap3" / "qc.acount", separator="\t", schema_overrides={"#CHROM": pl.String, "ALT_CTS": pl.Float64}
    )
    assert variants["variant_id"].equals(printed["ID"])
    assert variants["ref"].equals(printed["REF"].rename("ref"))
    assert variants["alt"].equals(printed["ALT"].rename("alt"))
    diploid = variants["chromosome"].is_in([str(number) for number in range(1, 23)] + ["XY"]).to_numpy()
    called = calls != 3
    np.testing.assert_array_equal(np.where(called, calls, 0).sum(1, dtype=np.int64)[diploid], printed["ALT_CTS"].to_numpy()[diploid])
    np.testing.assert_array_equal(2 * called.sum(1)[diploid], printed["OBS_CT"].to_numpy()[diploid])
    missing = pl.read_csv(DATA / "reference" / "hapmap3" / "qc.vmiss", separator="\t", schema_overrides={"#CHROM": pl.String})
    np.testing.assert_array_equal((~called).sum(1)[diploid], missing["MISSING_CT"].to_numpy()[diploid])
    of_people = pl.read_csv(DATA / "reference" / "hapmap3" / "qc.smiss", separator="\t", infer_schema=False)
    assert people["sample_id"].equals(of_people["IID"].rename("sample_id"))
    np.testing.assert_array_equal((~called).sum(0), of_people["MISSING_CT"].cast(pl.Int64).to_numpy())


@needs_data
def test_read_bim__names_plinks_chromosome_codes() -> None:
    variants = read_bim(DATA / "hapmap3" / "data.bim")
    found = dict(variants["chromosome"].value_counts().iter_rows())
    assert (found["X"], found["XY"], found["MT"], found["1"]) == (75, 39, 9, 1129)
    assert list(variants.schema.items())[:2] == [("chromosome", pl.String()), ("base_pair_location", pl.Int64())]


@needs_data
def test_read_bed__frequencies_of_chr20_are_plinks() -> None:
    variants, people, packed = read_all(DATA / "reference" / "kgchr20" / "chr20.bed")
    calls = codes(packed, len(people))
    printed = pl.read_csv(DATA / "reference" / "kgchr20" / "qc.afreq", separator="\t")
    assert variants["variant_id"].to_list() == printed["ID"].to_list()
    called = (calls != 3).sum(1)
    np.testing.assert_array_equal(2 * called, printed["OBS_CT"].to_numpy())
    np.testing.assert_allclose(np.where(calls == 3, 0, calls).sum(1) / (2 * called), printed["ALT_FREQS"].to_numpy(), rtol=5e-6)


@needs_data
def test_read_bed__any_block_is_the_slice_of_the_whole() -> None:
    bed = DATA / "hapmap3" / "data.bed"
    whole = read_bed(bed, 0, 14389, 957)
    for first, count in ((0, 1), (100, 0), (777, 1234), (14388, 1)):
        np.testing.assert_array_equal(read_bed(bed, first, count, 957), whole[first : first + count])


@needs_data
def test_write_plink__gives_back_the_bytes_of_hapmap3(tmp_path: Path) -> None:
    variants, people, packed = read_all(DATA / "hapmap3" / "data.bed")
    write_plink(tmp_path / "copy", variants, people, (packed[at : at + 5000] for at in range(0, len(packed), 5000)))
    assert (tmp_path / "copy.bed").read_bytes() == (DATA / "hapmap3" / "data.bed").read_bytes()
    again, people_again, packed_again = read_all(tmp_path / "copy.bed")
    assert again.equals(variants)
    assert people_again.equals(people)
    np.testing.assert_array_equal(packed_again, packed)


@pytest.mark.parametrize("n_samples", [1, 2, 3, 4, 5, 8])
def test_read_bed__reads_what_write_plink_wrote_with_no_padding_bits(tmp_path: Path, n_samples: int) -> None:
    calls = np.random.default_rng(n_samples).integers(0, 4, (6, n_samples), np.uint8)
    packed = np.zeros((6, -(-n_samples // 4)), np.uint8)
    for s in range(n_samples):
        packed[:, s // 4] |= calls[:, s] << 2 * (s % 4)
    people = pl.DataFrame({"sample_id": [f"s{s}" for s in range(n_samples)]})
    variants = pl.DataFrame({"base_pair_location": range(6)}).with_columns(chromosome=pl.lit("X"), variant_id=pl.lit("."))
    variants = variants.with_columns(ref=pl.lit("AT"), alt=pl.lit("A"))
    write_plink(tmp_path / "x", variants, people, [packed[:2], packed[2:]])
    again, people_again, packed_again = read_all(tmp_path / "x.bed")
    np.testing.assert_array_equal(packed_again, packed)
    assert again["variant_id"].to_list() == [f"X:{i}:AT:A" for i in range(6)]
    assert people_again.row(0) == ("s0", "0", "0", "0", None, None)
    with pytest.raises(InputError, match=r"ends after \d+ of \d+ bytes from variant 3"):
        read_bed(tmp_path / "x.bed", 3, 4, n_samples)


def test_read_bed__turns_the_four_codes_of_the_format_round(tmp_path: Path) -> None:
    # 0b11_10_01_00: sample 0 is A1 A1, 1 missing, 2 A1 A2, 3 A2 A2.
    bed = write_fileset(tmp_path, bed="6c1b01e4")
    assert codes(read_bed(bed, 0, 1, 4), 4).tolist() == [[2, 3, 1, 0]]


def test_write_plink__refuses_another_number_of_rows(tmp_path: Path) -> None:
    variants, people, packed = read_all(write_fileset(tmp_path))
    with pytest.raises(ValueError, match="2 rows of calls were given for 1 variants"):
        write_plink(tmp_path / "y", variants, people, [packed, packed])


def test_read_fam__nulls_and_whitespace(tmp_path: Path) -> None:
    path = tmp_path / "x.fam"
    path.write_bytes(b"f1 a 0 0 1 -9\r\nf1\tb\ta  0 2\t1.5\n  f2 c 0 0 0 NA\nf2 d 0 0 other 0\nf2 e 0 0 1 -9.0")
    people = read_fam(path)
    assert people["sample_id"].to_list() == ["a", "b", "c", "d", "e"]
    assert people["father_id"].to_list() == ["0", "a", "0", "0", "0"]
    assert people["sex"].to_list() == [1, 2, None, None, 1]
    assert people["phenotype"].to_list() == [None, 1.5, None, 0.0, None]


@pytest.mark.parametrize(
    ("fam", "message"),
    [
        ("f a 0 0 1 -9\nf a 0 0 1 -9\n", r"x\.fam: 1 sample id\(s\) .* more than once, such as a; .* make them unique"),
        ("f a 0 0 1 -9\ng a 0 0 1 -9\n", r"x\.fam: 1 sample id\(s\) .* more than once, such as a; .* ids: fid_iid"),
        ("f a 0 0 1 -9\nf b 0 0 1\n", r"x\.fam: line 2 has 5 fields where 6 are expected"),
        ("f a 0 0 1 -9\nf b 0 0 1 -9 8\n", r"x\.fam: line 2 has 7 fields where 6 are expected"),
        ("f a 0 0 1 ill\n", r"x\.fam: line 1: phenotype must be a number, found 'ill'; write one of -9"),
        ("", r"x\.fam: the file is empty; it must have a line for each person"),
        ("\n\n", r"x\.fam: the file is empty"),
    ],
)
def test_read_fam__refuses(tmp_path: Path, fam: str, message: str) -> None:
    write_fileset(tmp_path, fam=fam)
    with pytest.raises(InputError, match=message):
        read_fam(tmp_path / "x.fam")


def test_read_bim__refuses_a_position_that_is_no_number(tmp_path: Path) -> None:
    write_fileset(tmp_path, bim="1 rs1 0 10 A C\n1 rs2 0 1e3 A C\n")
    with pytest.raises(InputError, match=r"x\.bim: line 2: base_pair_location must be a number, found '1e3'"):
        read_bim(tmp_path / "x.bim")


@pytest.mark.parametrize(
    ("bed", "message"),
    [
        ("", "the file is empty"),
        ("6c1b0002", "is sample-major"),
        ("1f8b0804", "is not a PLINK .bed: it begins with 1f 8b 08"),
        ("6c1b01", "has 3 bytes where 4 are expected for 1 variants and 2 people; it looks truncated"),
        ("6c1b010202", "has 5 bytes where 4 are expected for 1 variants and 2 people; the three files do not belong together"),
    ],
)
def test_bed_shape_check__refuses(tmp_path: Path, bed: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"x\.bed: {message}"):
        bed_shape_check(write_fileset(tmp_path, bed=bed), 1, 2)


def test_bim_and_fam__names_what_is_missing(tmp_path: Path) -> None:
    bed = write_fileset(tmp_path)
    assert bim_and_fam(bed) == (str(tmp_path / "x.bim"), str(tmp_path / "x.fam"))
    (tmp_path / "x.fam").unlink()
    with pytest.raises(InputError, match=r"x\.fam: no such file; a plink input is three files"):
        bim_and_fam(bed)
    with pytest.raises(InputError, match=r"x\.bim: the path of a plink input names the \.bed"):
        bim_and_fam(tmp_path / "x.bim")
    assert bed.read_bytes()[:3] == bed_files.BED_MAGIC


def test_fam_rows__refuses_an_id_with_a_space() -> None:
    with pytest.raises(DataError, match="sample_id 'a b' holds a space, which separates the fields"):
        fam_rows(pl.DataFrame({"sample_id": ["a", "a b"]}))
