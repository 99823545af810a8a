"""The gwas_ssf output: the GWAS Catalogue's columns and metadata, a file a trait, the same text whatever the parts."""

from __future__ import annotations

import gzip
import hashlib
import math
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from ruamel.yaml import YAML

from pipeline.errors import JobError
from pipeline.format import OutputFormat
from pipeline.formats._bgzip.cutting import plan_ranges
from pipeline.formats._bgzip.lines import read_lines
from pipeline.formats._bgzip.writer import bgzip
from pipeline.formats.gwas_ssf import GwasSsfOutput
from pipeline.registry import format_class
from pipeline.tables.part import Part, Schema
from tests.outputs import write_output

PLACE = ["chromosome", "base_pair_location", "effect_allele", "other_allele"]
HEADER = [*PLACE, "beta", "standard_error", "effect_allele_frequency", "p_value"]


def results(rows: int = 300, traits: tuple[str, ...] = ("LDL", "body mass/index")) -> pl.DataFrame:
    """Results of variants on X, Y, MT and autosomes, sorted, each with all traits."""
    random = np.random.default_rng(7)
    names = sorted(random.choice([*range(1, 23), 23, 24, 25], rows).tolist())
    text = {23: "X", 24: "chrY", 25: "MT"}
    variants = pl.DataFrame(
        {
            "chromosome": [text.get(name, f"{name}") for name in names],
            "base_pair_location": np.arange(1, rows + 1) * 100,
            "effect_allele": random.choice(["A", "C", "GT"], rows),
            "other_allele": random.choice(["g", "T"], rows),
            "variant_id": [f"rs{i}" if i % 3 else f"v{i}" for i in range(rows)],
        }
    )
    table = variants.join(pl.DataFrame({"trait": list(traits)}), how="cross", maintain_order="left_right")
    numbers = {name: random.uniform(0.01, 1, table.height) for name in ("beta", "standard_error", "effect_allele_frequency", "p_value")}
    table = table.with_columns(
        **{name: pl.Series(values) for name, values in numbers.items()}, n=pl.lit(2500), reason=pl.lit(None, pl.String)
    )
    return table.with_columns(neg_log_10_p_value=-pl.col("p_value").log10())


def write(rows: pl.DataFrame, folder: Path, parts: int = 1, writer: GwasSsfOutput | None = None) -> dict[str, int | None]:
    """Write the rows; the files' names and rows."""
    (written,) = write_output(writer or GwasSsfOutput(), Part(rows), {}, parts, folder)
    return {path.rpartition("/")[2]: count for path, count in written.files}


def read(path: Path) -> list[dict[str, str]]:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_gwas_ssf__each_trait_is_a_file_in_the_standards_columns(tmp_path: Path, parts: int) -> None:
    rows = results()
    assert write(rows, tmp_path, parts) == {
        "out.LDL.tsv.gz": 300,
        "out.LDL.tsv.gz-meta.yaml": None,
        "out.body%20mass%2Findex.tsv.gz": 300,
        "out.body%20mass%2Findex.tsv.gz-meta.yaml": None,
    }
    for trait, name in (("LDL", "LDL"), ("body mass/index", "body%20mass%2Findex")):
        expected, found = rows.filter(pl.col("trait") == trait), read(tmp_path / "out" / f"out.{name}.tsv.gz")
        assert list(found[0]) == [*HEADER, "variant_id", "rsid", "ref_allele", "n", "neg_log_10_p_value"]
        for line, row in zip(found, expected.iter_rows(named=True), strict=True):
            number = {"X": "23", "chrY": "24", "MT": "25"}.get(row["chromosome"], row["chromosome"])
            assert (line["chromosome"], line["base_pair_location"]) == (number, str(row["base_pair_location"]))
            assert (line["effect_allele"], line["other_allele"]) == (row["effect_allele"], row["other_allele"].upper())
            assert [float(line[key]) for key in HEADER[4:]] == [row[key] for key in HEADER[4:]]
            assert line["variant_id"] == f"{number}_{row['base_pair_location']}_{row['other_allele'].upper()}_{row['effect_allele']}"
            assert line["rsid"] == (row["variant_id"] if row["variant_id"].startswith("rs") else "#NA")
            assert (line["ref_allele"], line["n"]) == ("OA", "2500")


@pytest.mark.parametrize("parts", [1, 3])
def test_gwas_ssf__metadata_say_what_is_known(tmp_path: Path, parts: int) -> None:
    rows = results().with_columns(beta=pl.when(pl.int_range(pl.len()) < 6).then(None).otherwise("beta"))
    write(rows, tmp_path, parts, GwasSsfOutput.model_validate({"build": "hg38"}))
    file = tmp_path / "out" / "out.LDL.tsv.gz"
    assert YAML(typ="safe").load(Path(f"{file}-meta.yaml").read_text()) == {
        "file_type": "GWAS-SSF v1.0",
        "data_file_name": "out.LDL.tsv.gz",
        "data_file_md5sum": hashlib.md5(file.read_bytes()).hexdigest(),
        "genome_assembly": "GRCh38",
        "coordinate_system": "1-based",
        "trait_description": ["LDL"],
        "samples": [{"sample_size": 2500}],
        "is_harmonised": False,
        "is_sorted": True,
        "author_notes": "3 variants without a result that the format can hold are left out",
    }
    write(rows.reverse(), tmp_path / "reversed", parts)
    assert YAML(typ="safe").load((tmp_path / "reversed" / "out" / "out.LDL.tsv.gz-meta.yaml").read_text())["is_sorted"] is False


def test_gwas_ssf__metadata_name_the_run_by_its_certificate(tmp_path: Path) -> None:
    writer = pickle.loads(pickle.dumps(GwasSsfOutput().made_by({"plan": "12ab"})))
    write(results(traits=("a",)), tmp_path, 2, writer)
    said = YAML(typ="safe").load((tmp_path / "out" / "out.a.tsv.gz-meta.yaml").read_text())
    assert said["author_notes"] == "made by the run whose certificate.json has plan 12ab"


def test_gwas_ssf__parts_that_are_sorted_one_by_one_are_not_sorted_together(tmp_path: Path) -> None:
    rows = results(traits=("a",))
    write(pl.concat([rows[150:], rows[:150]]), tmp_path, 2)
    assert YAML(typ="safe").load((tmp_path / "out" / "out.a.tsv.gz-meta.yaml").read_text())["is_sorted"] is False


def test_gwas_ssf__a_p_value_too_small_for_a_double_is_written_from_its_logarithm(tmp_path: Path) -> None:
    logs = [1073.2, 400.0, 299.5, 301.25, 2.0]
    rows = results(5, ("a",)).with_columns(neg_log_10_p_value=pl.Series(logs), p_value=pl.Series([10.0**-value for value in logs]))
    write(rows, tmp_path)
    texts = [line["p_value"] for line in read(tmp_path / "out" / "out.a.tsv.gz")]
    assert texts[:2] == ["6.30957e-1074", "1.0e-400"]
    for text, value in zip(texts, logs, strict=True):
        mantissa, _, exponent = text.partition("e")
        assert math.log10(float(mantissa)) + int(exponent or 0) == pytest.approx(-value, abs=1e-5)


def test_gwas_ssf__leaves_out_what_the_standard_cannot_hold(tmp_path: Path) -> None:
    rows = results(12, ("a",))
    bad: dict[str, list[object]] = {
        "beta": [None, math.nan],
        "chromosome": ["GL000192.1", None],
        "other_allele": ["<DEL>", "*"],
        "base_pair_location": [0, None],
        "p_value": [None],
    }
    at = 0
    for name, values in bad.items():
        for value in values:
            rows = rows.with_columns(
                pl.when(pl.int_range(pl.len()) == at).then(pl.lit(value, rows.schema[name])).otherwise(name).alias(name)
            )
            at += 1
    assert write(rows, tmp_path)["out.a.tsv.gz"] == 3
    assert "9 variants without a result" in (tmp_path / "out" / "out.a.tsv.gz-meta.yaml").read_text()


@pytest.mark.parametrize("rows", [0, 5])
def test_gwas_ssf__a_table_without_traits_is_one_file(tmp_path: Path, rows: int) -> None:
    table = results(5, ("a",)).drop("trait", "n", "variant_id")[:rows]
    assert write(table, tmp_path, 2) == {"out.tsv.gz": rows, "out.tsv.gz-meta.yaml": None}
    assert len(read(tmp_path / "out" / "out.tsv.gz")) == rows
    known = YAML(typ="safe").load((tmp_path / "out" / "out.tsv.gz-meta.yaml").read_text())
    assert "trait_description" not in known
    assert "genome_assembly" not in known


def test_gwas_ssf__no_results_of_any_trait_are_a_file_with_a_header(tmp_path: Path) -> None:
    assert write(results()[:0], tmp_path, 2) == {"out.tsv.gz": 0, "out.tsv.gz-meta.yaml": None}
    assert (
        gzip.decompress((tmp_path / "out" / "out.tsv.gz").read_bytes()).decode().startswith("chromosome\tbase_pair_location\teffect_allele")
    )


def test_gwas_ssf__a_trait_without_any_result_is_a_file_with_a_header(tmp_path: Path) -> None:
    rows = results().with_columns(beta=pl.when(pl.col("trait") == "LDL").then(None).otherwise("beta"))
    assert write(rows, tmp_path, 3)["out.LDL.tsv.gz"] == 0


def test_gwas_ssf__writes_to_a_url_as_to_a_folder(tmp_path: Path) -> None:
    import fsspec

    rows = results()
    write(rows, tmp_path, 2)
    (written,) = write_output(GwasSsfOutput(), Part(rows), {}, 3, "memory://gwas-ssf")
    there = fsspec.filesystem("memory")
    assert written.files[0][0] == "memory://gwas-ssf/out/out.LDL.tsv.gz"
    for name in ("out.LDL.tsv.gz", "out.body%20mass%2Findex.tsv.gz"):
        assert gzip.decompress(there.cat(f"/gwas-ssf/out/{name}")) == gzip.decompress((tmp_path / "out" / name).read_bytes())


def test_gwas_ssf__odds_ratios_and_logarithms_stand_in_for_beta_and_p(tmp_path: Path) -> None:
    write(results(5, ("a",)).rename({"beta": "odds_ratio"}).drop("p_value"), tmp_path)
    assert list(read(tmp_path / "out" / "out.a.tsv.gz")[0])[4:8] == [
        "odds_ratio",
        "standard_error",
        "effect_allele_frequency",
        "neg_log_10_p_value",
    ]


def test_gwas_ssf__refuses_a_table_without_a_mandatory_column() -> None:
    rows, writer = results(3), GwasSsfOutput()
    writer.check(Schema(rows.schema), rows.columns)
    with pytest.raises(JobError, match="needs the column beta or odds_ratio or hazard_ratio, which is not written here"):
        writer.check(Schema(rows.schema), [name for name in rows.columns if name != "beta"])
    with pytest.raises(JobError, match=r"needs the column effect_allele, .* Did you mean 'effect_alele'"):
        writer.check(Schema(rows.schema), ["effect_alele" if name == "effect_allele" else name for name in rows.columns])
    assert format_class("gwas_ssf", OutputFormat) is GwasSsfOutput


def test_bgzip__blocks_are_those_of_the_specification(tmp_path: Path) -> None:
    text = b"".join(f"{i}\t{i * i}\n".encode() for i in range(20_000)) + np.random.default_rng(1).bytes(70_000).replace(b"#", b"+") + b"\n"
    rows = Part(results(3000, ("a",)))
    write_output(GwasSsfOutput(), rows, {}, 2, tmp_path)
    file = tmp_path / "out" / "out.a.tsv.gz"
    ranges = plan_ranges(file, 100_000)
    assert len(ranges) > 2
    assert b"".join(b"".join(read_lines(part)) for part in ranges) == gzip.decompress(file.read_bytes())
    assert gzip.decompress(bgzip(text)) == text
    assert bgzip(b"") == b""
