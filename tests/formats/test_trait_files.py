"""The gwas_vcf and regenie outputs: a file a trait, as their readers and regenie itself have them, whatever the parts."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cyvcf2 import VCF

from pipeline.errors import JobError
from pipeline.format import OutputFormat
from pipeline.formats.gwas_vcf import GwasVcfOutput
from pipeline.formats.regenie import RegenieOutput
from pipeline.registry import format_class
from pipeline.tables.part import Part, Schema
from tests.kernels.plink_files import DATA, needs_data
from tests.outputs import write_output

REGENIE = DATA / "reference" / "regenie" / "hapmap3"


def results(traits: tuple[str, ...] = ("LDL", "body mass/index")) -> pl.DataFrame:
    """Results of variants on autosomes and X, in order, each with all traits; two of the first trait have none."""
    random = np.random.default_rng(7)
    variants = pl.DataFrame(
        {
            "chromosome": ["1"] * 20 + ["chr2"] * 20 + ["X"] * 10 + ["MT"] * 2,
            "base_pair_location": np.arange(1, 53) * 100,
            "effect_allele": random.choice(["A", "C", "GT"], 52),
            "other_allele": random.choice(["g", "T"], 52),
            "variant_id": [f"rs{number}" for number in range(51)] + ["MT:5200:T:A"],
        }
    )
    rows = variants.join(pl.DataFrame({"trait": list(traits)}), how="cross", maintain_order="left_right")
    numbers = {name: random.uniform(0.01, 1, rows.height) for name in ("beta", "standard_error", "effect_allele_frequency", "p_value")}
    none = (pl.col("trait") == traits[0]) & pl.col("variant_id").is_in(["rs3", "rs30"])
    rows = rows.with_columns(n=pl.lit(2500, pl.Int64), **{name: pl.Series(values) for name, values in numbers.items()})
    rows = rows.with_columns(
        statistic=pl.col("beta") / pl.col("standard_error"), neg_log_10_p_value=-pl.col("p_value").log10(), test=pl.lit("linear dominant")
    )
    gone = pl.col("beta", "standard_error", "p_value", "neg_log_10_p_value", "statistic")
    return rows.with_columns(
        pl.when(none).then(None).otherwise(gone).name.keep(), reason=pl.when(none).then(pl.lit("no variation")).otherwise(None)
    )


def write(rows: pl.DataFrame, folder: Path, writer: OutputFormat, parts: int = 1) -> dict[str, int | None]:
    """Write the rows; the files' names and rows."""
    (written,) = write_output(writer, Part(rows), {}, parts, folder)
    return {path.rpartition("/")[2]: count for path, count in written.files}


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_gwas_vcf__is_read_by_htslib_with_every_number(tmp_path: Path, parts: int) -> None:
    rows = results()
    files = write(rows, tmp_path, GwasVcfOutput.model_validate({"build": "hg38"}), parts)
    assert files == {"out.LDL.vcf.gz": 50, "out.body%20mass%2Findex.vcf.gz": 52}
    for trait, name in (("LDL", "LDL"), ("body mass/index", "body%20mass%2Findex")):
        wanted = rows.filter(pl.col("trait") == trait, pl.col("beta").is_not_null())
        read = VCF(tmp_path / "out" / f"out.{name}.vcf.gz")
        assert read.samples == [trait]
        assert read.seqnames == ["1", "chr2", "X", "MT"]
        assert "##contig=<ID=X,assembly=GRCh38>" in read.raw_header
        for found, row in zip(read, wanted.iter_rows(named=True), strict=True):
            assert (row["chromosome"], row["base_pair_location"], row["variant_id"]) == (found.CHROM, found.POS, found.ID)
            assert (row["other_allele"].upper(), [row["effect_allele"]]) == (found.REF, found.ALT)
            numbers = {"ES": "beta", "SE": "standard_error", "LP": "neg_log_10_p_value", "AF": "effect_allele_frequency", "SS": "n"}
            for field, column in numbers.items():
                assert found.format(field)[0, 0] == pytest.approx(row[column], rel=1e-6), field  # htslib has them in single precision


def test_gwas_vcf__leaves_out_what_it_cannot_hold(tmp_path: Path) -> None:
    rows = results(("a",)).with_columns(
        other_allele=pl.when(pl.col("variant_id") == "rs0").then(pl.lit("<DEL>")).otherwise("other_allele"),
        beta=pl.when(pl.col("variant_id") == "rs1").then(math.nan).otherwise("beta"),
        standard_error=pl.when(pl.col("variant_id") == "rs2").then(None).otherwise("standard_error"),
    )
    assert write(rows, tmp_path, GwasVcfOutput())["out.a.vcf.gz"] == 52 - 4
    first = next(iter(VCF(tmp_path / "out" / "out.a.vcf.gz")))
    assert first.ID == "rs2"
    assert np.isnan(first.format("SE")[0, 0])


def test_gwas_vcf__odds_ratios_are_written_as_their_logarithms(tmp_path: Path) -> None:
    rows = results(("a",))
    ratios = rows.with_columns(pl.col("beta").exp()).rename({"beta": "odds_ratio"}).drop("trait", "neg_log_10_p_value", "n")
    assert write(ratios, tmp_path, GwasVcfOutput()) == {"out.vcf.gz": 50}
    read = VCF(tmp_path / "out" / "out.vcf.gz")
    assert read.samples == ["results"]
    first = next(iter(read))
    assert first.format("ES")[0, 0] == pytest.approx(rows["beta"][0], rel=1e-6)
    assert first.format("LP")[0, 0] == pytest.approx(rows["neg_log_10_p_value"][0], rel=1e-6)


@pytest.mark.parametrize("parts", [1, 3])
def test_regenie__has_every_row_and_says_which_failed(tmp_path: Path, parts: int) -> None:
    rows = results()
    assert write(rows, tmp_path, RegenieOutput(), parts) == {"out.LDL.regenie.gz": 52, "out.body%20mass%2Findex.regenie.gz": 52}
    lines = gzip.decompress((tmp_path / "out" / "out.LDL.regenie.gz").read_bytes()).decode().splitlines()
    assert lines[0] == "CHROM GENPOS ID ALLELE0 ALLELE1 A1FREQ N TEST BETA SE CHISQ LOG10P EXTRA"
    fields = lines[4].split(" ")
    assert (fields[2], fields[7:]) == ("rs3", ["DOM", "NA", "NA", "NA", "NA", "TEST_FAIL"])
    assert {line.split(" ")[0] for line in lines[1:]} == {"1", "2", "23", "26"}


@pytest.mark.parametrize("test", ["firth_approximate", "firth_lrt", "spa", "firth_approximate recessive"])
def test_regenie__of_firth_and_of_the_saddle_point_has_the_chi_square_of_its_p_value(tmp_path: Path, test: str) -> None:
    rows = results(("ill",)).with_columns(statistic=pl.col("beta") / pl.col("standard_error") / 2, test=pl.lit(test))
    write(rows, tmp_path, RegenieOutput(), 2)
    lines = pl.read_csv(tmp_path / "out" / "out.ill.regenie.gz", separator=" ", null_values="NA", schema_overrides={"CHROM": pl.String})
    np.testing.assert_allclose(lines["CHISQ"].drop_nulls(), rows["statistic"].drop_nulls() ** 2)
    assert set(lines["TEST"]) == {"REC" if "recessive" in test else "ADD"}
    assert lines["EXTRA"].drop_nulls().to_list() == ["TEST_FAIL"] * 2


@needs_data
@pytest.mark.parametrize("name", ["s2_qt_y_lin", "s2_qt_y_null", "s2_bt_firth_y_rare", "s2_bt_spa_y_bin"])
def test_regenie__what_regenie_wrote_is_written_again(tmp_path: Path, name: str) -> None:
    file, trait = REGENIE / f"{name}.regenie.gz", "_".join(name.split("_")[-2:])
    theirs = pl.read_csv(file, separator=" ", null_values="NA", schema_overrides={"CHROM": pl.String, "EXTRA": pl.String})
    read = RegenieOutput().scan(file, f".{trait}.regenie.gz", {})
    assert read is not None
    write(read.collect(), tmp_path, RegenieOutput(), 3)
    ours = pl.read_csv(
        tmp_path / "out" / f"out.{trait}.regenie.gz",
        separator=" ",
        null_values="NA",
        schema_overrides={"CHROM": pl.String, "EXTRA": pl.String},
    )
    assert ours.columns == theirs.columns
    assert ours.drop("CHISQ").equals(theirs.drop("CHISQ"))
    np.testing.assert_allclose(ours["CHISQ"], theirs["CHISQ"], rtol=1e-12)


@pytest.mark.parametrize(("writer", "ending"), [(GwasVcfOutput(), "vcf"), (RegenieOutput(), "regenie")])
def test_trait_files__are_read_back_under_the_tables_names(tmp_path: Path, writer: OutputFormat, ending: str) -> None:
    rows = results()
    write(rows, tmp_path, writer, 2)
    name = f".body%20mass%2Findex.{ending}.gz"
    found = writer.scan(tmp_path / "out" / f"out{name}", name, {})
    assert found is not None
    back, wanted = found.collect(), rows.filter(pl.col("trait") == "body mass/index")
    for column in ("base_pair_location", "variant_id", "trait", "n", "effect_allele"):
        assert back[column].to_list() == wanted[column].to_list(), column
    for column in ("beta", "standard_error", "p_value", "neg_log_10_p_value", "effect_allele_frequency"):
        np.testing.assert_allclose(back[column], wanted[column], rtol=1e-12)
    assert writer.scan(b"", ".body%20mass%2Findex.tsv.gz", {}) is None


@pytest.mark.parametrize(("name", "writer", "lacks"), [("gwas_vcf", GwasVcfOutput, "beta"), ("regenie", RegenieOutput, "standard_error")])
def test_trait_files__refuse_a_table_without_a_column(name: str, writer: type[GwasVcfOutput], lacks: str) -> None:
    rows = results()
    writer().check(Schema(rows.schema), rows.columns)
    with pytest.raises(JobError, match=f"needs the column {lacks}"):
        writer().check(Schema(rows.schema), [column for column in rows.columns if column != lacks])
    assert format_class(name, OutputFormat) is writer


@needs_data
@pytest.mark.parametrize("name", ["hapmap3/sets_qt_y_lin", "hapmap3/sets_bt_y_rare", "example_3chr/sets_qt_Y2"])
def test_regenie__sets_are_written_as_regenie_wrote_them(tmp_path: Path, name: str) -> None:
    file, trait = REGENIE.parent / f"{name}.regenie.gz", name.partition("t_")[2]
    read = RegenieOutput().scan(file, f".{trait}.regenie.gz", {name: pl.String() for name in ("set_id", "mask", "frequency_bin")})
    assert read is not None
    rows = read.collect()
    assert {*rows["test"]} >= (
        {"burden", "burden_acat", "gene_p"} if "example" in name else {"burden", "skat", "skat_o_acat", "burden_acat"}
    )
    assert rows["test"].str.contains("ADD|GENE").sum() == 0
    assert rows.filter(pl.col("test") == "skat")["statistic"].null_count() == 0
    RegenieOutput().check(Schema(rows.schema), rows.columns)
    files = write(rows, tmp_path, RegenieOutput())
    assert files == {f"out.{trait}.regenie.gz": rows.height}
    strings = dict.fromkeys(("CHROM", "EXTRA"), pl.String)
    theirs, ours = (
        pl.read_csv(path, separator=" ", null_values="NA", comment_prefix="##", schema_overrides=strings)
        for path in (file, tmp_path / "out" / f"out.{trait}.regenie.gz")
    )
    more = ["CHISQ", "EXTRA"] if "example" in name else ["CHISQ"]  # GENE_P's says which mask is the strongest
    assert ours.drop(more).equals(theirs.drop(more))
    np.testing.assert_allclose(ours["CHISQ"], theirs["CHISQ"], rtol=1e-12)


def test_regenie__of_sets_needs_what_says_which_set_and_test_a_row_is_of() -> None:
    columns = {name: pl.String() for name in ("set_id", "mask", "frequency_bin", "chromosome", "base_pair_location")}
    with pytest.raises(JobError, match="regenie's format needs the column test, which is not written here"):
        RegenieOutput().check(Schema(pl.Schema(columns)), [*columns])
