"""The bgen format: dosages and hard calls of files that PLINK and the package bgen wrote, in any parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import InputError, PlaceError
from pipeline.formats import bgen as bgen_format
from pipeline.formats.bgen import BgenInput
from pipeline.kernels.genotypes import unpack
from tests.formats.reading import read
from tests.kernels.plink_files import DATA, needs_data, read_bed

bgen = pytest.importorskip("bgen")
EXAMPLE = DATA / "regenie_example" / "example.bgen"


def reader(path: Path, **given: Any) -> BgenInput:
    return BgenInput.model_validate({"path": str(path), **given})


def probabilities(variants: int, samples: int) -> np.ndarray[Any, Any]:
    """Diploid genotype probabilities `float64[variants, samples, 3]`, some people missing (NaN)."""
    random = np.random.default_rng(variants)
    found = random.dirichlet((0.2, 0.2, 0.2), (variants, samples))
    found[random.random((variants, samples)) < 0.05] = np.nan
    return found


def write(path: Path, found: np.ndarray[Any, Any], **given: Any) -> Path:
    """A file of these probabilities in 16 bits, without its index."""
    samples = [f"s{i}" for i in range(found.shape[1])]
    options = {"samples": samples, "compression": "zlib", "layout": 2, **given}
    with bgen.BgenWriter(str(path), found.shape[1], **options) as writer:
        for i, row in enumerate(found):
            writer.add_variant(f"id{i}", f"rs{i}" if i else ".", "01", 10 * i + 1, ["A", "C"], row, bit_depth=16)
    Path(f"{path}.bgi").unlink()
    return path


def expected_dosages(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    dosages: np.ndarray[Any, Any] = found[:, :, 1] + 2 * found[:, :, 2]
    return dosages


@needs_data
@pytest.mark.parametrize("parts", [None, 1, 2, 7])
def test_bgen_input__regenies_example_is_its_bed_with_the_last_allele_as_ref(parts: int | None) -> None:
    calls, people = read_bed(DATA / "regenie_example" / "example")
    dosages = read(reader(EXAMPLE, parts=parts, ref_first=False))
    np.testing.assert_array_equal(dosages.arrays["alt_dosages"], unpack(calls, people, np.float32, np.nan))
    table = reader(EXAMPLE, parts=parts, ref_first=False, field="calls")
    whole = read(table)
    np.testing.assert_array_equal(whole.arrays["calls"], calls)
    bim = [line.split() for line in (DATA / "regenie_example" / "example.bim").read_text().splitlines()]
    assert whole.frame.rows() == [(line[0], int(line[3]), line[1], line[5], line[4]) for line in bim]
    assert table.axes()["calls"]["sample_id"].to_list()[:2] == ["1_1", "2_2"]
    turned = read(reader(EXAMPLE, parts=parts))
    np.testing.assert_array_equal(turned.arrays["alt_dosages"], 2 - dosages.arrays["alt_dosages"])
    assert turned.frame["ref"].equals(whole.frame["alt"], check_names=False)


@pytest.mark.parametrize(("layout", "compression"), [(2, "zlib"), (2, "zstd"), (2, None), (1, "zlib")])
@pytest.mark.parametrize("parts", [1, 5])
def test_bgen_input__dosages_are_those_of_the_probabilities(tmp_path: Path, layout: int, compression: str | None, parts: int) -> None:
    found = probabilities(23, 7)
    given = {"samples": None} if layout == 1 else {}
    path = write(tmp_path / "x.bgen", found, layout=layout, compression=compression, **given)
    if layout == 1:  # has no place for sample ids
        people = "".join(f"f s{i} 0 {i % 3}\n" for i in range(7))
        (tmp_path / "x.sample").write_text("ID_1 ID_2 missing sex\n0 0 0 D\n" + people)
    table = reader(path, parts=parts)
    whole = read(table)
    np.testing.assert_allclose(whole.arrays["alt_dosages"], expected_dosages(found), atol=1e-4)
    assert whole.arrays["alt_dosages"].dtype == np.float32
    assert whole.frame.rows()[:2] == [("1", 1, "id0", "A", "C"), ("1", 11, "rs1", "A", "C")]
    assert table.axes()["alt_dosages"]["sample_id"].to_list() == [f"s{i}" for i in range(7)]
    if layout == 1:
        assert table.axes()["alt_dosages"]["sex"].to_list() == [None, 1, 2, None, 1, 2, None]


@pytest.mark.parametrize("threshold", [None, 0.0, 0.3])
def test_bgen_input__calls_are_the_nearest_within_the_threshold_and_the_others_counted(tmp_path: Path, threshold: float | None) -> None:
    found = probabilities(300, 9)
    given = {} if threshold is None else {"hard_call_threshold": threshold}
    whole = read(reader(write(tmp_path / "x.bgen", found), field="calls", parts=2, **given))
    stored = read(reader(tmp_path / "x.bgen")).arrays["alt_dosages"].astype(np.float64)
    steps = np.floor(16384 * stored + 0.5)  # as PLINK has it
    near = np.abs(steps - 16384 * np.round(stored)) <= int(16384 * (0.1 if threshold is None else threshold))
    np.testing.assert_array_equal(unpack(whole.arrays["calls"], 9), np.where(near, np.round(stored), -1 + 4))
    assert whole.counts == {"cohort:calls_past_threshold": int((~near & ~np.isnan(stored)).sum())}


def test_bgen_input__phased_and_haploid_people(tmp_path: Path) -> None:
    with bgen.BgenWriter(str(tmp_path / "x.bgen"), 3, samples=["a", "b", "c"]) as writer:
        mixed = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, np.nan], [0.0, 1.0, 0.0]])
        writer.add_variant("v", "rs1", "23", 5, ["A", "C"], mixed, ploidy=np.array([1, 1, 2], np.uint8))
        phased = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [np.nan] * 4])
        writer.add_variant("w", "rs2", "X", 6, ["A", "C"], phased, phased=True)
    whole = read(reader(tmp_path / "x.bgen"))
    assert whole.frame["chromosome"].to_list() == ["X", "X"]
    np.testing.assert_array_equal(whole.arrays["alt_dosages"], [[2, 0, 1], [1, 2, np.nan]])
    turned = read(reader(tmp_path / "x.bgen", ref_first=False))
    np.testing.assert_array_equal(turned.arrays["alt_dosages"], [[0, 2, 1], [1, 0, np.nan]])


def test_bgen_input__refuses_sites_of_three_alleles_and_other_ploidies(tmp_path: Path) -> None:
    with bgen.BgenWriter(str(tmp_path / "x.bgen"), 2, samples=["a", "b"]) as writer:
        writer.add_variant("v", "rs1", "1", 5, ["A", "C", "G"], np.eye(6)[:2])
    with pytest.raises(InputError, match=r"x\.bgen: variant rs1 at 1:5 has 3 alleles, and only two can be read; split it"):
        read(reader(tmp_path / "x.bgen"))
    with bgen.BgenWriter(str(tmp_path / "y.bgen"), 2, samples=["a", "b"]) as writer:
        writer.add_variant("v", "rs1", "1", 5, ["A", "C"], np.eye(4)[:2], ploidy=3)
    with pytest.raises(InputError, match=r"y\.bgen: cannot be read as BGEN \(cannot compute dosage with ploidy > 2\)"):
        read(reader(tmp_path / "y.bgen"))


def test_bgen_input__reads_by_an_index_and_refuses_that_of_another_file(tmp_path: Path) -> None:
    found = probabilities(12, 4)
    plain = write(tmp_path / "plain.bgen", found)
    with bgen.BgenWriter(str(tmp_path / "x.bgen"), 4, samples=["a", "b", "c", "d"]) as writer:
        for i, row in enumerate(found):
            writer.add_variant(f"id{i}", f"rs{i}" if i else ".", "1", 10 * i + 1, ["A", "C"], row, bit_depth=16)
    with_index, without = read(reader(tmp_path / "x.bgen", parts=3)), read(reader(plain, parts=3))
    assert with_index.frame.equals(without.frame)
    np.testing.assert_array_equal(with_index.arrays["alt_dosages"], without.arrays["alt_dosages"])
    other = write(tmp_path / "other.bgen", probabilities(3, 4))
    (tmp_path / "other.bgen.bgi").write_bytes((tmp_path / "x.bgen.bgi").read_bytes())
    with pytest.raises(
        InputError, match=r"other\.bgen\.bgi: is the index of another file: it lists 12 variants .*bgenix -g .*, or remove it"
    ):
        reader(other).table_schema()
    (tmp_path / "other.bgen.bgi").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"it lists no variants that can be read \(file is not a database\)"):
        reader(other).table_schema()


def test_bgen_input__refuses_people_that_are_unknown_or_do_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "x.bgen", probabilities(3, 2), samples=None)
    with pytest.raises(InputError, match=r"x\.bgen: holds no sample ids, and there is no .*x\.sample; name the file .* samples:"):
        reader(path).table_schema()
    people = tmp_path / "x.sample"
    people.write_text("ID_1 ID_2 missing\n0 0 0\nf a 0\n")
    with pytest.raises(InputError, match=r"x\.sample: has 1 people where .*x\.bgen has 2"):
        reader(path).table_schema()
    people.write_text("ID_1 ID_2 missing\n0 0 0\nf a 0\ng a 0\n")
    with pytest.raises(InputError, match=r"x\.sample: 1 sample id\(s\) \(IID\) stand more than once"):
        reader(path).table_schema()
    people.write_text("a\nb\n")
    with pytest.raises(InputError, match=r"x\.sample: is no \.sample file, whose first two lines are"):
        reader(path).table_schema()
    with pytest.raises(InputError, match=r"y\.sample: is no \.sample file"):
        reader(path, samples=str(tmp_path / "y.sample")).table_schema()


def test_bgen_input__refuses_two_files_and_damaged_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "x.bgen", probabilities(30, 5))
    with pytest.raises(InputError, match=r"one \.bgen is one input"):
        BgenInput(path=(str(path), str(path))).table_schema()
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"x\.bgen: cannot be read as BGEN \(.*\); copy it again"):
        read(reader(path))
    path.write_bytes(b"not a bgen file at all, but a text")
    with pytest.raises(InputError, match=r"x\.bgen: cannot be read as BGEN"):
        reader(path).table_schema()


def test_bgen_input__says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.bgen", probabilities(3, 2))
    assert reader(path, build="hg19").genome_build() == "GRCh37"
    monkeypatch.setattr(bgen_format, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"bgen, which reads \.bgen files, is not installed.*pip install '\.\[genotypes\]'"):
        reader(path).table_schema()
