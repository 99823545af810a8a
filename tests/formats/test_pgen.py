"""The pgen format: hard calls and dosages of filesets that PLINK 2 and pgenlib wrote, in any parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import InputError, PlaceError
from pipeline.formats import pgen
from pipeline.formats._plink.pgen_files import read_pgen_header
from pipeline.formats.pgen import PgenInput
from pipeline.kernels.genotypes import unpack
from tests.formats.reading import read
from tests.kernels.plink_files import DATA, needs_data, read_bed

pgenlib = pytest.importorskip("pgenlib")
HEADER = "##fileformat=VCFv4.2\n##contig=<ID=1,length=249250621>\n#CHROM\tPOS\tID\tREF\tALT\n"


def reader(path: Path, **given: Any) -> PgenInput:
    return PgenInput.model_validate({"path": str(path), **given})


def write_tables(folder: Path, variants: list[str], samples: int) -> Path:
    """The .pvar and .psam of a fileset; each variant is its last five columns."""
    (folder / "x.pvar").write_text(HEADER + "".join(f"{line}\n" for line in variants))
    people = "".join(f"f{i}\tp{i}\t{'12N'[i % 3].replace('N', 'NA')}\n" for i in range(samples))
    (folder / "x.psam").write_text("#FID\tIID\tSEX\n" + people)
    return folder / "x.pgen"


def write_calls(folder: Path, calls: np.ndarray[Any, Any]) -> Path:
    """A fileset of biallelic calls `int8[variants, samples]`, -9 missing."""
    path = write_tables(folder, [f"1\t{10 * i + 1}\tv{i}\tA\tC" for i in range(len(calls))], calls.shape[1])
    with pgenlib.PgenWriter(str(path).encode(), calls.shape[1], variant_ct=len(calls)) as writer:
        for row in calls:
            writer.append_biallelic(np.ascontiguousarray(row))
    return path


def write_dosages(folder: Path, dosages: np.ndarray[Any, Any]) -> Path:
    path = write_tables(folder, [f"1\t{10 * i + 1}\tv{i}\tA\tC" for i in range(len(dosages))], dosages.shape[1])
    with pgenlib.PgenWriter(str(path).encode(), dosages.shape[1], variant_ct=len(dosages), dosage_present=True) as writer:
        for row in dosages:
            writer.append_dosages(np.ascontiguousarray(row))
    return path


@needs_data
@pytest.mark.parametrize("parts", [None, 1, 2, 7])
def test_pgen_input__regenies_example_is_its_bed(parts: int | None) -> None:
    table = reader(DATA / "regenie_example" / "example.pgen", parts=parts)
    whole, (calls, people) = read(table), read_bed(DATA / "regenie_example" / "example")
    np.testing.assert_array_equal(whole.arrays["calls"], calls)
    bim = [line.split() for line in (DATA / "regenie_example" / "example.bim").read_text().splitlines()]
    assert whole.frame.rows() == [(line[0], int(line[3]), line[1], line[5], line[4]) for line in bim]
    assert table.axes()["calls"].height == people
    assert table.axes()["calls"].columns == ["sample_id", "family_id", "sex"]
    assert not whole.counts


@needs_data
def test_pgen_input__dosages_of_hard_calls_are_the_calls() -> None:
    calls, people = read_bed(DATA / "regenie_example" / "example")
    whole = read(reader(DATA / "regenie_example" / "example.pgen", parts=3, field="dosages"))
    assert whole.arrays["alt_dosages"].dtype == np.float32
    np.testing.assert_array_equal(whole.arrays["alt_dosages"], unpack(calls, people, np.float32, np.nan))


@pytest.mark.parametrize("samples", [1, 2, 3, 5, 8, 133])
@pytest.mark.parametrize("parts", [1, 4])
def test_pgen_input__packs_any_number_of_samples(tmp_path: Path, samples: int, parts: int) -> None:
    calls = np.random.default_rng(samples).choice(np.array([0, 1, 2, -9], np.int8), (37, samples))
    whole = read(reader(write_calls(tmp_path, calls), parts=parts))
    np.testing.assert_array_equal(unpack(whole.arrays["calls"], samples, missing=-9), calls)
    padding = 2 * (4 * whole.arrays["calls"].shape[1] - samples)
    assert not (whole.arrays["calls"][:, -1] >> np.uint8(8 - padding)).any() if padding else True


def test_pgen_input__states_sex_and_build(tmp_path: Path) -> None:
    path = write_calls(tmp_path, np.zeros((2, 3), np.int8))
    table = reader(path)
    assert table.axes()["calls"].rows() == [("p0", "f0", 1), ("p1", "f1", 2), ("p2", "f2", None)]
    assert table.genome_build() == "GRCh37"
    assert reader(path, build="hg38").genome_build() == "GRCh38"


def test_pgen_input__dosages_are_read_to_a_sixteen_thousandth_and_their_hard_calls_counted(tmp_path: Path) -> None:
    dosages = np.random.default_rng(1).uniform(0, 2, (9, 10)).astype(np.float32)
    dosages[2, 3] = -9
    dosages[5] = np.round(dosages[5])
    path = write_dosages(tmp_path, dosages)
    found = read(reader(path, field="dosages", parts=2)).arrays["alt_dosages"]
    np.testing.assert_array_equal(np.isnan(found), dosages < 0)
    np.testing.assert_allclose(found, np.where(dosages < 0, np.nan, dosages), atol=1 / 32768)
    whole = read(reader(path, parts=2))
    assert whole.counts == {"cohort:variants_with_dosages": 8}
    codes = unpack(whole.arrays["calls"], 10, missing=-9)
    near = np.abs(dosages - np.round(dosages))
    np.testing.assert_array_equal(codes[near < 0.0999], np.round(dosages)[near < 0.0999])
    assert (codes[near > 0.1001] == -9).all()


def test_pgen_input__phase_is_left_out_and_counted(tmp_path: Path) -> None:
    path = write_tables(tmp_path, ["1\t1\ta\tA\tC", "1\t2\tb\tA\tC"], 3)
    with pgenlib.PgenWriter(str(path).encode(), 3, variant_ct=2, hardcall_phase_present=True) as writer:
        writer.append_alleles(np.array([0, 1, 1, 0, -9, -9], np.int32), all_phased=True)
        writer.append_alleles(np.array([0, 0, 1, 1, 0, 0], np.int32), all_phased=True)
    whole = read(reader(path))
    assert unpack(whole.arrays["calls"], 3, missing=-9).tolist() == [[1, 1, -9], [0, 2, 0]]
    assert whole.counts == {"cohort:variants_with_phase": 1}


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_pgen_input__a_site_that_parts_cut_through_is_counted_once(tmp_path: Path, parts: int) -> None:
    path = write_tables(tmp_path, ["1\t1\ta\tA\tC,G,T"], 3)
    limits = {"variant_ct_limit": 1, "allele_ct_limit": 4, "hardcall_phase_present": True}
    with pgenlib.PgenWriter(str(path).encode(), 3, **limits) as writer:
        writer.append_alleles(np.array([0, 1, 3, 0, 1, 2], np.int32), all_phased=True, allele_ct=4)
    assert read(reader(path, parts=parts)).counts == {"cohort:variants_with_phase": 1}


@pytest.mark.parametrize("field", ["calls", "dosages"])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_pgen_input__a_site_of_several_alleles_gives_a_row_for_each(tmp_path: Path, field: str, parts: int) -> None:
    path = write_tables(tmp_path, ["1\t1\ta\tA\tC", "1\t2\t.\tA\tC,G,T", "1\t3\tb\tA\tC,G", "1\t4\tc\tA\t."], 3)
    with pgenlib.PgenWriter(str(path).encode(), 3, variant_ct_limit=4, allele_ct_limit=4) as writer:
        for alleles, count in (([0, 1, 1, 1, 0, 0], 2), ([1, 3, 2, 2, -9, -9], 4), ([0, 2, 0, 1, 1, 2], 3), ([0, 0, 0, 0, 0, 0], 2)):
            writer.append_alleles(np.array(alleles, np.int32), allele_ct=count)
    whole = read(reader(path, parts=parts, field=field))
    assert whole.frame["variant_id"].to_list() == ["a", "1:2:A:C", "1:2:A:G", "1:2:A:T", "b:C", "b:G"]
    found = whole.arrays["alt_dosages"] if field == "dosages" else unpack(whole.arrays["calls"], 3, np.float32, np.nan)
    nan = np.nan
    np.testing.assert_array_equal(found, [[1, 2, 0], [1, 0, nan], [0, 2, nan], [1, 0, nan], [0, 1, 1], [1, 0, 1]])


def test_pgen_input__reads_headerless_tables_and_plinks_chromosome_codes(tmp_path: Path) -> None:
    path = write_calls(tmp_path, np.array([[0, 1], [2, -9]], np.int8))
    (tmp_path / "x.pvar").write_text("23 a 0 5 C A\n26 b 0 6 G T\n")
    (tmp_path / "x.psam").write_text("f p 0 0 1 -9\ng q 0 0 2 1\n")
    table = reader(path)
    assert read(table).frame.rows() == [("X", 5, "a", "A", "C"), ("MT", 6, "b", "T", "G")]
    assert table.axes()["calls"]["sex"].to_list() == [1, 2]


def test_pgen_input__refuses_files_that_do_not_belong_together(tmp_path: Path) -> None:
    path = write_calls(tmp_path, np.zeros((3, 4), np.int8))
    pvar, psam = path.with_suffix(".pvar"), path.with_suffix(".psam")
    whole = pvar.read_text()
    pvar.write_text(whole + "1\t99\tmore\tA\tC\n")
    with pytest.raises(InputError, match=r"x\.pvar: has 4 variants where .*x\.pgen has 3; the files do not belong together"):
        reader(path).table_schema()
    pvar.write_text(whole.replace("\t11\t", "\t?\t"))
    with pytest.raises(InputError, match=r"x\.pvar: line 5: base_pair_location must be a number, found '\?'"):
        reader(path).table_schema()
    pvar.write_text(whole.replace("\tv1", ""))
    with pytest.raises(InputError, match=r"x\.pvar: line 5 has 4 fields where 5 are expected"):
        reader(path).table_schema()
    pvar.write_text(whole.replace("POS", "position"))
    with pytest.raises(InputError, match=r"x\.pvar: its header line has no column POS"):
        reader(path).table_schema()
    pvar.write_text(whole)
    people = psam.read_text()
    psam.write_text(people.replace("p1", "p0"))
    with pytest.raises(InputError, match=r"x\.psam: 1 sample id\(s\) \(IID\) stand more than once, such as p0"):
        reader(path).table_schema()
    psam.write_text(people.replace("IID", "ID"))
    with pytest.raises(InputError, match=r"x\.psam: its header line has no column IID"):
        reader(path).table_schema()
    psam.write_text(people.splitlines()[0] + "\nf0\tp0\t1\n")
    with pytest.raises(InputError, match=r"x\.psam: has 1 people where"):
        reader(path).table_schema()


def test_pgen_input__refuses_missing_compressed_and_other_files(tmp_path: Path) -> None:
    path = write_calls(tmp_path, np.zeros((3, 4), np.int8))
    pvar = path.with_suffix(".pvar")
    pvar.rename(tmp_path / "x.pvar.zst")
    with pytest.raises(InputError, match=r"x\.pvar\.zst: is compressed; .* plink2 --pfile .*x vzs --make-just-pvar --out .*x"):
        reader(path).table_schema()
    (tmp_path / "x.pvar.zst").unlink()
    with pytest.raises(InputError, match=r"x\.pvar: no such file; a pgen input is three files"):
        reader(path).table_schema()
    with pytest.raises(InputError, match=r"x\.psam: the path of a pgen input names the \.pgen"):
        reader(path.with_suffix(".psam")).table_schema()
    with pytest.raises(InputError, match=r"one \.pgen is one input"):
        PgenInput(path=(str(path), str(path))).table_schema()


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("6c1b01dcdcdcdcdcdcdcdcdc", "is a PLINK 1 .bed by its first bytes; read it with format: plink"),
        ("6c1b20030000000400000041", "its storage mode 0x20 is not known here; write it again with plink2 --make-pgen"),
        ("6c", "is not a .pgen: it begins with 6c, not with 6c 1b"),
        ("232323232323232323232323", "is not a .pgen: it begins with 23 23"),
    ],
)
def test_read_pgen_header__refuses_other_files(tmp_path: Path, head: str, message: str) -> None:
    (tmp_path / "x.pgen").write_bytes(bytes.fromhex(head))
    with pytest.raises(InputError, match=message):
        read_pgen_header(tmp_path / "x.pgen")


def test_pgen_input__says_that_a_file_is_cut(tmp_path: Path) -> None:
    path = write_calls(tmp_path, np.random.default_rng(0).integers(0, 3, (50, 40), np.int8))
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(InputError, match=r"x\.pgen: cannot be read \(.*\); write it again with plink2 --make-pgen"):
        read(reader(path))


def test_pgen_input__says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_calls(tmp_path, np.zeros((3, 4), np.int8))
    monkeypatch.setattr(pgen, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"pgenlib, which reads \.pgen files, is not installed.*pip install '\.\[genotypes\]'"):
        reader(path).table_schema()


def test_read_pgen_header__finds_dosages_past_the_first_block(tmp_path: Path) -> None:
    variants = (1 << 16) + 5
    path = tmp_path / "x.pgen"
    with pgenlib.PgenWriter(str(path).encode(), 2, variant_ct=variants, dosage_present=True) as writer:
        for i in range(variants):
            writer.append_dosages(np.array([0.5 if i in (3, variants - 2) else 1.0, 0], np.float32))
    header = read_pgen_header(path)
    assert (header.variants, header.samples) == (variants, 2)
    assert np.flatnonzero(header.dosages).tolist() == [3, variants - 2]
    assert not header.phase.any()
