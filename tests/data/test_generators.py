"""The generators in data/ give the same bytes for the same seed, and what they wrote into the repository is what data/README.md says."""

from __future__ import annotations

import gzip
import importlib.util
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import cyvcf2
import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
import statsmodels.api as sm
from polars.testing import assert_frame_equal

from pipeline.formats._plink.bed_files import read_bed, read_bim
from pipeline.formats.vcf import VcfInput
from pipeline.kernels.genotypes import unpack

DATA = Path(__file__).parents[2] / "data"
GENOMICS, LOANS = DATA / "genomics", DATA / "loans"


def script(name: str) -> ModuleType:
    """A script of data/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DATA / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


make_loans = script("make_loans")


@pytest.fixture(scope="module")
def small_cohorts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three small cohorts: two of one seed, one of another."""
    make_genomics = script("make_genomics")
    folders = [tmp_path_factory.mktemp("cohort") for _ in range(3)]
    for folder, seed in zip(folders, (7, 7, 8)):
        make_genomics.write_genomics(folder, make_genomics.Settings(seed=seed, people=90, variants=300))
    return folders


def test_genomics__same_seed_gives_same_bytes(small_cohorts: list[Path]) -> None:
    first, second, other = small_cohorts
    for name in ("cohort.vcf.gz", "samples.csv", "causal.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
        assert (first / name).read_bytes() != (other / name).read_bytes()


def test_genomics__small_cohort_has_the_size_asked_for(small_cohorts: list[Path]) -> None:
    vcf = cyvcf2.VCF(str(small_cohorts[0] / "cohort.vcf.gz"))
    rows = [(v.CHROM, v.POS, len(v.ALT), bool(v.gt_phases.any())) for v in vcf]
    assert len(vcf.samples) == 90
    assert len(rows) == 300
    assert {chromosome for chromosome, *_ in rows} == {str(n) for n in range(1, 23)}
    assert {(alts, phased) for *_, alts, phased in rows} == {(1, False)}
    places = [(int(chromosome), position) for chromosome, position, *_ in rows]
    assert places == sorted(set(places))


@pytest.mark.parametrize("folder", ["small", "shipped"])
def test_genomics__bgzf_blocks_carry_their_sizes(folder: str, small_cohorts: list[Path]) -> None:
    packed = ((small_cohorts[0] if folder == "small" else GENOMICS) / "cohort.vcf.gz").read_bytes()
    start, sizes = 0, []
    while start < len(packed):
        assert packed[start : start + 4] == b"\x1f\x8b\x08\x04"
        subfield, length, size = struct.unpack("<2sHH", packed[start + 12 : start + 18])
        assert (subfield, length) == (b"BC", 2)
        sizes.append(len(gzip.decompress(packed[start : start + size + 1])))
        start += size + 1
    assert start == len(packed)
    assert sizes[-1] == 0
    assert 0 < min(sizes[:-1]) <= max(sizes[:-1]) <= 65_536


@pytest.fixture(scope="module")
def shipped() -> tuple[pl.DataFrame, list[str], npt.NDArray[np.uint8]]:
    """Variants, sample ids and calls (ALT alleles, 3 where missing) of the shipped cohort, as cyvcf2 reads them."""
    vcf = cyvcf2.VCF(str(GENOMICS / "cohort.vcf.gz"), gts012=True)
    rows, calls = [], []
    for variant in vcf:
        rows.append((variant.ID, variant.REF, variant.ALT[0]))
        calls.append(variant.gt_types.astype(np.uint8))
    return pl.DataFrame(rows, schema=["variant_id", "ref", "alt"], orient="row"), list(vcf.samples), np.stack(calls)


def test_shipped_genomics__has_what_the_issue_asks_for(shipped: tuple[pl.DataFrame, list[str], npt.NDArray[np.uint8]]) -> None:
    variants, names, calls = shipped
    sheet = pl.read_csv(GENOMICS / "samples.csv")
    assert sum(path.stat().st_size for path in GENOMICS.iterdir()) <= 5_000_000
    assert calls.shape == (21_300, 1_200)
    assert variants["variant_id"].n_unique() == len(variants)
    assert sheet.columns == ["sample_id", "population", "sex", "age", "ldl", "disease"]
    assert sheet["sample_id"].n_unique() == len(sheet)
    assert set(sheet["population"]) == {"north", "south", "east"}
    assert set(sheet["sex"]) == {1, 2}
    assert len(set(sheet["sample_id"]) - set(names)) == 15
    assert len(set(names) - set(sheet["sample_id"])) == 12
    assert [name for name in sheet["sample_id"] if name in names] != [name for name in names if name in set(sheet["sample_id"])]
    assert 5 <= sheet["ldl"].null_count() <= 30
    assert 0.28 < sheet.select(pl.col("disease").mean()).item() < 0.32


def test_shipped_genomics__gives_quality_control_something_to_do(
    shipped: tuple[pl.DataFrame, list[str], npt.NDArray[np.uint8]],
) -> None:
    calls = shipped[2]
    missing = calls == 3
    assert 0.003 < missing.mean() < 0.007
    assert 5 <= (missing.mean(axis=0) > 0.05).sum() <= 15
    good = ~(poor := missing.mean(axis=1) > 0.02)
    assert 150 <= poor.sum() <= 300
    counts = np.stack([(calls == code).sum(axis=1) for code in (0, 1, 2)])
    frequency = (counts[1] / 2 + counts[2]) / counts.sum(axis=0)
    inbreeding = 1 - counts[1] / (2 * frequency * (1 - frequency) * counts.sum(axis=0))
    assert 30 <= (good & (inbreeding > 0.4)).sum() <= 200
    rare = np.minimum(frequency, 1 - frequency) < 0.01
    assert 0.02 < rare.mean() < 0.05
    assert len(calls) - (poor | rare).sum() >= 20_000


def test_shipped_genomics__causal_variants_are_found(shipped: tuple[pl.DataFrame, list[str], npt.NDArray[np.uint8]]) -> None:
    variants, names, calls = shipped
    causal = pl.read_csv(GENOMICS / "causal.csv").join(variants.with_row_index("row"), on="variant_id", how="left", maintain_order="left")
    assert causal.columns[:4] == ["trait", "variant_id", "effect_allele", "effect"]
    assert causal["effect_allele"].to_list() == causal["alt"].to_list()
    sheet = pl.DataFrame({"sample_id": names}).with_row_index("column").join(pl.read_csv(GENOMICS / "samples.csv"), on="sample_id")
    for trait, least in (("ldl", 5), ("disease", 2)):
        people = sheet.drop_nulls(trait)
        known = people.select("age", "sex", south=pl.col("population") == "south", east=pl.col("population") == "east").cast(pl.Float64)
        strong = 0
        for row, effect in causal.filter(pl.col("trait") == trait).select("row", "effect").iter_rows():
            dosage = calls[row, people["column"].to_numpy()].astype(np.float64)
            dosage[dosage == 3] = np.nan
            design = np.column_stack([dosage, np.ones(len(people)), known.to_numpy()])
            fit = sm.OLS(people[trait].to_numpy(), design, missing="drop").fit()
            strong += fit.pvalues[0] < 5e-8
            scale = 1.0 if trait == "ldl" else fit.params[0] / effect
            assert abs(fit.params[0] - effect * scale) < 4 * fit.bse[0]
            assert np.sign(fit.params[0]) == np.sign(effect)
        assert strong >= least


def read_loans(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both tables of a folder, all files."""
    loans, performance = (pl.read_parquet(folder / name / "*.parquet") for name in ("loans", "performance"))
    return loans, performance


def test_loans__same_seed_gives_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_loans.write_loans(tmp_path / name, 300, seed, files=3)
    for path in sorted((tmp_path / "a").rglob("*.parquet")):
        same, other = (tmp_path / name / path.relative_to(tmp_path / "a") for name in ("b", "c"))
        assert path.read_bytes() == same.read_bytes()
        assert path.read_bytes() != other.read_bytes()


def test_loans__performance_file_holds_the_loans_of_its_number(tmp_path: Path) -> None:
    make_loans.write_loans(tmp_path, 1_000, 1, files=4)
    last = 0
    for number in range(4):
        loans = pl.read_parquet(tmp_path / "loans" / f"part-{number:05d}.parquet")
        performance = pl.read_parquet(tmp_path / "performance" / f"part-{number:05d}.parquet")
        assert loans["loan_id"].is_sorted()
        assert loans["loan_id"][0] > last
        last = loans["loan_id"][-1]
        expected = loans.select("loan_id").join(pl.DataFrame({"month": range(24)}, schema={"month": pl.Int32}), how="cross")
        assert_frame_equal(performance.select("loan_id", "month"), expected)


def test_loans__spread_gives_the_same_rows_in_other_files(tmp_path: Path) -> None:
    make_loans.write_loans(tmp_path / "together", 500, 1, files=4)
    make_loans.write_loans(tmp_path / "spread", 500, 1, files=4, spread=True)
    for together, spread in zip(read_loans(tmp_path / "together"), read_loans(tmp_path / "spread")):
        keys = [name for name in ("loan_id", "month") if name in spread.columns]
        assert_frame_equal(together, spread.sort(keys))
    first = pl.read_parquet(tmp_path / "spread" / "performance" / "part-00000.parquet")
    assert first["loan_id"].n_unique() == 500
    assert set(first["month"]) == set(range(6))


def test_loans__refuses_more_files_than_months_to_spread(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="files=25 is not between 1 and 24, the number of months"):
        make_loans.write_loans(tmp_path, 1_000, 1, files=25, spread=True)
    with pytest.raises(ValueError, match="files=4 is not between 1 and 3, the number of loans"):
        make_loans.write_loans(tmp_path, 3, 1, files=4)


def test_loans__command_line_writes_both_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_loans.py", "--scale", "50", "--out", str(tmp_path), "--files", "2"])
    make_loans.main()
    loans, performance = read_loans(tmp_path)
    assert (len(loans), len(performance)) == (50, 1_200)
    assert "2 files" in capsys.readouterr().out


def test_shipped_loans__are_what_the_generator_makes(tmp_path: Path) -> None:
    make_loans.write_loans(tmp_path, 4_000, 20261121, files=2)
    for shipped, made in zip(read_loans(LOANS), read_loans(tmp_path)):
        assert_frame_equal(shipped, made)
    assert sum(path.stat().st_size for path in LOANS.rglob("*.parquet")) <= 1_500_000


def test_shipped_loans__have_gaps_bad_values_and_a_label() -> None:
    loans, performance = read_loans(LOANS)
    known = pl.col("origination_date").str.to_date("%Y-%m-%d", strict=False)
    assert loans.select((pl.col("origination_date").is_not_null() & known.is_null()).sum()).item() > 0
    assert loans["purpose"].n_unique() == 13
    assert loans.select((pl.col("dti") < 0).sum()).item() > 10
    for name in ("credit_score", "dti", "state", "purpose", "channel", "origination_date"):
        assert loans[name].null_count() > 0
    assert performance["balance"].null_count() > 100
    assert performance.select((pl.col("balance") < 0).sum(), (pl.col("days_late") < 0).sum().alias("early")).row(0) > (100, 100)
    assert performance.filter(pl.col("days_late") % 30 != 0).is_empty()
    valid = performance.filter((pl.col("balance") >= 0) & (pl.col("month") >= 12))
    label = valid.group_by("loan_id").agg(label=pl.col("days_late").max() >= 90)
    assert 0.05 < label.select(pl.col("label").mean()).item() < 0.1
    assert len(label) < len(loans)


@pytest.mark.process
def test_make_cohort__writes_three_views_of_the_same_calls(tmp_path: Path) -> None:
    out = tmp_path / "cohort"
    subprocess.run(
        [sys.executable, DATA / "make_cohort.py", "--out", out, "--people", "60", "--variants", "400", "--missing", "0.05"],
        check=True,
        capture_output=True,
    )
    variants = read_bim(out / "cohort.bim").height
    complete, spoiled = (unpack(read_bed(out / f"{name}.bed", 0, variants, 60), 60, np.uint8) for name in ("complete", "cohort"))
    assert 390 <= variants <= 400
    assert not (complete == 3).any()
    assert 0.04 < (spoiled == 3).mean() < 0.06
    np.testing.assert_array_equal(spoiled[spoiled < 3], complete[spoiled < 3])
    vcf = VcfInput.model_validate({"path": str(out / "cohort.vcf.gz")})
    calls = np.concatenate([source.load().arrays["calls"] for source in vcf.sources(1)])
    np.testing.assert_array_equal(calls, read_bed(out / "cohort.bed", 0, variants, 60))
    sheet = pl.read_csv(out / "samples.csv")
    assert sheet.height == 60
    assert sheet["case_30"].sum() == 18


make_ratings = script("make_ratings")


def test_ratings__same_seed_gives_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        make_ratings.write_ratings(tmp_path / name, 60, 40, seed)
    for name in ("films.parquet", "views.parquet"):
        first, second, other = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second", "other"))
        assert first == second != other


def test_ratings__of_too_few_films_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="films=19 are too few"):
        make_ratings.write_ratings(tmp_path, 10, 19, 1)


def test_ratings__command_line_writes_both_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_ratings.py", "--people", "20", "--films", "30", "--out", str(tmp_path)])
    make_ratings.main()
    assert "films.parquet" in capsys.readouterr().out
    assert pl.read_parquet(tmp_path / "films.parquet").height == 30


def test_shipped_ratings__are_what_the_generator_makes_with_gaps_and_films_that_were_out(tmp_path: Path) -> None:
    make_ratings.write_ratings(tmp_path, 1_500, 400, 20261122)
    for name in ("films", "views"):
        assert_frame_equal(pl.read_parquet(DATA / "ratings" / f"{name}.parquet"), pl.read_parquet(tmp_path / f"{name}.parquet"))
    films, views = (pl.read_parquet(DATA / "ratings" / f"{name}.parquet") for name in ("films", "views"))
    assert views["day"].is_sorted()
    assert views.join(films, on="film").filter(pl.col("day") <= pl.col("released")).height == 0
    assert 100 < views["person"].null_count() < 200
    assert 200 < views["plays"].null_count() < 400
    assert 200 < views.filter(pl.col("plays") == 0).height < 400
    assert views.drop_nulls().select("person", "film").is_duplicated().sum() > 500


make_traffic = script("make_traffic")
TRAFFIC = DATA / "traffic"


def test_traffic__same_seed_gives_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        make_traffic.write_traffic(tmp_path / name, 40_000, seed, files=2)
    for name in ("readings/part-00000.parquet", "readings/part-00001.parquet", "sown.csv"):
        first, second, other = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second", "other"))
        assert first == second != other


def test_traffic__of_fewer_sensors_than_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"files=3 is not between 1 and 2, the number of sensors that make 40000 readings \(16128 each\)"):
        make_traffic.write_traffic(tmp_path, 40_000, 1, files=3)


def test_traffic__command_line_writes_readings_holidays_and_what_was_sown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_traffic.py", "--readings", "20000", "--out", str(tmp_path), "--files", "1"])
    make_traffic.main()
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("part-00000.parquet", "holidays.csv", "sown.csv"))
    assert pl.read_parquet(tmp_path / "readings" / "*.parquet")["sensor"].n_unique() == 1


def test_shipped_traffic__is_what_the_generator_makes_and_has_what_was_sown(tmp_path: Path) -> None:
    make_traffic.write_traffic(tmp_path, 200_000, 20261122, files=2)
    readings, made = (pl.read_parquet(folder / "readings" / "*.parquet") for folder in (TRAFFIC, tmp_path))
    assert_frame_equal(readings, made)
    assert (TRAFFIC / "sown.csv").read_bytes() == (tmp_path / "sown.csv").read_bytes()
    assert sum(path.stat().st_size for path in TRAFFIC.rglob("*.*")) <= 1_500_000
    assert readings["sensor"].n_unique() == 12
    assert readings.filter(pl.col("count") == 0)["speed"].null_count() == readings["speed"].null_count() > 1_000
    whole = pl.col("count").sum()
    of_days = readings.group_by(pl.col("time").dt.date().alias("day")).agg(whole).sort("day")
    free = pl.col("day").is_in([*make_traffic.HOLIDAYS]) | (pl.col("day").dt.weekday() == 7)
    busiest_free, quietest_working = (of_days.filter(kind)["count"].sort() for kind in (free, ~free & (pl.col("day").dt.weekday() < 6)))
    assert busiest_free[-1] < quietest_working[0]
    sown = pl.read_csv(TRAFFIC / "sown.csv", try_parse_dates=True).with_columns(pl.col("first", "last").cast(pl.Datetime("us")))
    assert set(sown["kind"]) == {"incident", "crowd", "gap", "stuck"}
    inside = sown.join(readings, on="sensor").filter(pl.col("time").is_between("first", "last"))
    assert inside.filter(pl.col("kind") == "gap").height == 0
    stuck = inside.filter(pl.col("kind") == "stuck").group_by("sensor", "first").agg(pl.col("speed", "count").n_unique(), pl.len())
    assert stuck.select("speed", "count").unique().rows() == [(1, 1)]
    assert stuck.filter(pl.col("len") < 30).height == 0


make_align = script("make_align")


def test_reads__same_seed_gives_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        make_align.write_align(tmp_path / name, 20_000, 2, seed)
    for name in ("reference.fa.gz", "mother_1.fastq.gz", "child_2.fastq.gz", "planted.csv"):
        first, second, other = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second", "other"))
        assert first == second != other


def test_reads__of_too_few_bases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bases=19999 are too few for two chromosomes"):
        make_align.write_align(tmp_path, 19_999, 30, 1)


def test_reads__command_line_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["make_align.py", "--bases", "20000", "--depth", "1", "--out", str(tmp_path)])
    make_align.main()
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("reference.fa.gz", "mother_1.fastq.gz", "child_2.fastq.gz", "planted.csv"))


def test_shipped_reads__are_what_the_generator_makes(tmp_path: Path) -> None:
    make_align.write_align(tmp_path, 80_000, 30, 20261123)
    for path in sorted(tmp_path.iterdir()):
        made, shipped = (
            gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            for file in (path, DATA / "alignment" / path.name)
        )
        assert made == shipped
    assert sum(path.stat().st_size for path in (DATA / "alignment").iterdir()) < 3_000_000


def test_text__same_seed_gives_the_committed_messages() -> None:
    make_text = script("make_text")
    shipped = pl.read_parquet(DATA / "messages" / "messages.parquet")
    assert_frame_equal(make_text.make_messages(1_600, 60, 20261123), shipped)
    assert not make_text.make_messages(1_600, 60, 1)["text"].equals(shipped["text"])


def test_shipped_messages__have_what_their_page_says() -> None:
    shipped = pl.read_parquet(DATA / "messages" / "messages.parquet")
    assert shipped["group"].n_unique() == 20
    assert shipped["message"].n_unique() == 1_600
    share = pl.read_parquet(DATA / "messages" / "messages.parquet").select(
        quoted=pl.col("text").str.starts_with(">").mean(),
        signed=pl.col("text").str.contains("\n-- \n").mean(),
        none=pl.col("text").is_null().mean(),
    )
    assert share.row(0) == pytest.approx((0.3, 0.6, 0.004), abs=0.04)
    own = shipped.filter(pl.col("author").str.split("-").list.first() != pl.col("group").str.split(".").list.last())
    assert own.height / shipped.height == pytest.approx(0.03, abs=0.015)


make_risk = script("make_risk")


def test_risk__same_seed_gives_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        make_risk.write_risk(tmp_path / name, 5, 11, seed)
    for name in ("assets.csv", "correlations.csv", "positions.csv"):
        first, second, other = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second", "other"))
        assert first == second != other


def test_risk__of_no_options_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5 assets and 5 positions: 3 assets at least, and more positions than assets"):
        make_risk.write_risk(tmp_path, 5, 5, 1)


def test_risk__command_line_writes_what_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_risk.py", "--assets", "12", "--positions", "30", "--out", str(tmp_path)])
    make_risk.main()
    shown = capsys.readouterr().out
    for name in ("assets.csv", "correlations.csv", "positions.csv"):
        assert name in shown
        assert (tmp_path / name).read_bytes() == (DATA / "risk" / name).read_bytes()
    correlations = pl.read_csv(DATA / "risk" / "correlations.csv")
    assert correlations.height == 12 * 11 // 2


def test_imputed__same_seed_gives_same_bytes_and_dosages_vary_as_their_r2_says(tmp_path: Path) -> None:
    make_imputed = script("make_imputed")
    for folder, seed in (("a", 3), ("b", 3), ("c", 4)):
        make_imputed.write_imputed(tmp_path / folder, 60, 200, seed)
    for name in ("chr22.vcf.gz", "samples.csv", "weights.csv"):
        same, again, other = ((tmp_path / folder / name).read_bytes() for folder in "abc")
        assert same == again != other
    with pytest.raises(ValueError, match="variants=99: at least 100"):
        make_imputed.write_imputed(tmp_path, 60, 99, 3)
    records = list(cyvcf2.VCF(str(DATA / "imputed" / "chr22.vcf.gz")))
    assert len(records) == 1_200
    for record in records[::100]:
        dosages = record.format("DS")[:, 0].astype(float)
        frequency = dosages.mean() / 2
        assert record.INFO["R2"] == pytest.approx(min(1, dosages.var() / (2 * frequency * (1 - frequency))), abs=1e-4)
        assert not record.INFO.get("TYPED") or set(dosages) <= {0, 1, 2}


def test_family__same_seed_gives_same_bytes_and_children_have_their_parents_alleles(tmp_path: Path) -> None:
    make_family = script("make_family")
    spoiled = {folder: make_family.write_family(tmp_path / folder, 6, seed) for folder, seed in (("a", 3), ("b", 3), ("c", 4))}
    assert spoiled["a"] == spoiled["b"] != spoiled["c"]
    for name in ("family.bed", "family.bim", "family.fam", "samples.csv"):
        same, again, other = ((tmp_path / folder / name).read_bytes() for folder in "abc")
        assert same == again != other
    rows = len((tmp_path / "a" / "family.bim").read_text().splitlines())
    fam = [line.split() for line in (tmp_path / "a" / "family.fam").read_text().splitlines()]
    calls = read_bed(tmp_path / "a" / "family.bed", 0, rows, len(fam))
    codes, places = unpack(calls, len(fam), np.int8), {line[1]: place for place, line in enumerate(fam)}
    for line in fam:
        if line[2] != "0" and line[1] not in {*spoiled["a"]["exchanged"], *spoiled["a"]["sex"]}:
            child, father, mother = (codes[:2_000, places[name]] for name in (line[1], line[2], line[3]))
            opposite = ((father == 0) & (child == 2)) | ((father == 2) & (child == 0)) | ((mother == 0) & (child == 2))
            assert opposite.mean() < 0.01


make_matrix = script("make_matrix")


def test_shipped_matrices__are_what_the_generator_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["make_matrix.py", "--out", str(tmp_path)])
    make_matrix.main()
    assert (tmp_path / "equations.csv").read_bytes() == (DATA / "matrix" / "equations.csv").read_bytes()
    assert_frame_equal(pl.read_parquet(tmp_path / "recordings.parquet"), pl.read_parquet(DATA / "matrix" / "recordings.parquet"))
    with pytest.raises(ValueError, match="at least 256 samples and 4 sensors"):
        make_matrix.write_matrix(tmp_path, 255, 12, 60, 1)
    with pytest.raises(ValueError, match="nodes=2: at least three"):
        make_matrix.make_equations(2)


make_simulation = script("make_simulation")


def test_shipped_plate_and_planets__are_what_the_generator_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["make_simulation.py", "--out", str(tmp_path)])
    make_simulation.main()
    assert (tmp_path / "bodies.csv").read_bytes() == (DATA / "simulation" / "bodies.csv").read_bytes()
    assert_frame_equal(pl.read_parquet(tmp_path / "plate.parquet"), pl.read_parquet(DATA / "simulation" / "plate.parquet"))
    with pytest.raises(ValueError, match="a plate of 96 x 7 cells"):
        make_simulation.make_plate(96, 7)


make_images = script("make_images")
IMAGES = DATA / "images"


def pixels_of(folder: Path) -> dict[str, npt.NDArray[np.int64]]:
    """The pixels of every image in a folder and those in it."""
    from PIL import Image

    return {str(path.relative_to(folder)): np.asarray(Image.open(path), np.int64) for path in sorted(folder.rglob("*.??g"))}


def test_images__same_seed_gives_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        make_images.write_shapes(tmp_path / name / "shapes", 4, seed)
    for name in ("shapes/0003.jpg", "shapes.csv"):
        first, second, other = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second", "other"))
        assert first == second != other


def test_images__of_more_digits_than_there_are_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="digits=1798: there are 1,797 of them; 1 at least"):
        make_images.write_digits(tmp_path, 1_798)


def test_images__command_line_writes_those_that_are_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_images.py", "--out", str(tmp_path)])
    make_images.main()
    assert "641 files" in capsys.readouterr().out
    made, shipped = pixels_of(tmp_path), pixels_of(IMAGES)
    assert [*made] == [*shipped]
    for name, pixels in made.items():  # another libjpeg may round in another way
        assert (pixels == shipped[name]).all() if name.endswith(".png") else abs(pixels - shipped[name]).mean() < 1
    assert (tmp_path / "shapes.csv").read_bytes() == (IMAGES / "shapes.csv").read_bytes()
    answers = pl.read_csv(IMAGES / "shapes.csv")
    assert answers.group_by("shape").len().filter(pl.col("len") > 40).height == 4
    assert sum(path.stat().st_size for path in IMAGES.rglob("*") if path.is_file()) < 400_000


def test_shipped_digits__are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    found = load_digits()
    for name, pixels in pixels_of(IMAGES / "digits").items():
        digit, number = name.removesuffix(".png").split("/")
        assert found.target[int(number)] == int(digit)
        assert (np.rint(pixels * 16 / 255) == found.images[int(number)]).all()
