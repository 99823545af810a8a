"""pileup_calls: beside bcftools on another cohort than the shipped one, and small piles by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from data import make_align
from pipeline.errors import DataError, StageError
from pipeline.formats.bam import BamOutput
from pipeline.formats.fastq import FastqInput
from pipeline.stages.genomics import pileup_calls
from pipeline.stages.genomics.align_reads import AlignReads
from pipeline.stages.genomics.pileup_calls import PileupCalls
from pipeline.testing.examples import StageExample
from pipeline.testing.formats import read_table, write_table
from pipeline.testing.stages import assert_same_for_any_parts, counts_of, plan_stage, run_stage
from tests.stages.genomics.alignment_rows import alignments, on_reference
from tests.stages.genomics.hard_reads import REFERENCE

STAGE = PileupCalls(reference=str(REFERENCE))
ROWS = alignments(400)
EXAMPLES = [StageExample(STAGE, {"rows": ROWS}, ordered=True)]
SITE = ["chromosome", "base_pair_location", "ref", "alt"]


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """A reference and the alignments of two samples at 18x, of another seed than those that are shipped."""
    pytest.importorskip("mappy")
    folder = tmp_path_factory.mktemp("cohort")
    make_align.write_align(folder, 60_000, 18, seed=77)
    (folder / "reference.fa").write_bytes(gzip.decompress((folder / "reference.fa.gz").read_bytes()))
    tables = []
    for sample in make_align.SAMPLES:
        paths = [str(folder / f"{sample}_{at}.fastq.gz") for at in (1, 2)]
        reads = read_table(FastqInput.model_validate({"path": paths, "layout": "paired", "sample": sample})).frame
        tables.append(run_stage(AlignReads(reference=str(folder / "reference.fa")), {"rows": reads})[""])
    return folder, pl.concat(tables)


def test_pileup_calls__are_bcftools_calls(cohort: tuple[Path, pl.DataFrame]) -> None:
    bcftools = pytest.importorskip("pysam.bcftools")
    folder, rows = cohort
    reference, called = str(folder / "reference.fa"), folder / "calls.vcf"
    (bam, _) = write_table(BamOutput(reference=reference), rows, folder / "bam")
    bcftools.mpileup("-f", reference, "-Ob", "-o", str(folder / "piled.bcf"), str(bam), catch_stdout=False)
    bcftools.call("-mv", "-Ob", "-o", str(folder / "called.bcf"), str(folder / "piled.bcf"), catch_stdout=False)
    bcftools.norm("-f", reference, "-o", str(called), str(folder / "called.bcf"), catch_stdout=False)
    lines = [line.split("\t") for line in called.read_text().splitlines()]
    (samples,) = (line[9:] for line in lines if line[0] == "#CHROM")
    theirs = pl.DataFrame(
        [(line[0], int(line[1]), *line[3:5], sample, call.split(":")[0]) for line in lines if line[0][0] != "#" and float(line[5]) >= 20
         for sample, call in zip(samples, line[9:], strict=True)],
        schema=[*SITE, "sample_id", "bcftools"], orient="row",
    )  # fmt: skip
    ours = run_stage(PileupCalls(reference=reference), {"rows": rows}, parts=2)[""]
    both = ours.join(theirs, on=[*SITE, "sample_id"], how="full", coalesce=True)
    assert both.height > 100
    same = (pl.col("genotype") == pl.col("bcftools")).fill_null(False)
    assert both.select(same.mean()).item() >= 0.99, both.filter(~same)
    planted = pl.read_csv(folder / "planted.csv", schema_overrides={"chromosome": pl.String}).unpivot(
        index=SITE, variable_name="sample_id", value_name="planted"
    )
    snvs = planted.filter(pl.col("ref").str.len_bytes() == pl.col("alt").str.len_bytes())
    assert snvs.join(ours, on=[*SITE, "sample_id"], how="anti").height == 0
    told = planted.join(ours, on=[*SITE, "sample_id"])
    assert told.select((pl.col("planted") == pl.col("genotype")).mean()).item() >= 0.98


def test_pileup_calls__are_the_same_however_the_reference_is_cut(
    cohort: tuple[Path, pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rows = cohort
    stage = PileupCalls(reference=str(folder / "reference.fa"))
    rows = rows.filter(pl.col("chromosome") == "2")
    whole = run_stage(stage, {"rows": rows})[""]
    monkeypatch.setattr(pileup_calls, "STRETCH_BASES", 1_777)
    found = assert_same_for_any_parts(stage, {"rows": rows}, [*SITE, "sample_id"])
    assert found.equals(whole.sort([*SITE, "sample_id"]))


def test_pileup_calls__by_hand() -> None:
    """A substitution of one sample, a deletion and an insertion of the other; mates that overlap count once, and a failed read never."""
    bases = on_reference("1", 5_000, 140)
    snv = bases[:30] + ("A" if bases[30] != "A" else "C") + bases[31:]
    gap, more = bases[:40] + bases[43:], bases[:80] + "GATTACA" + bases[80:]
    rows = [("a", f"snv{at}", 0, "140M", snv) for at in range(4)] + [("a", f"ref{at}", 0, "140M", bases) for at in range(4)]
    rows += [("b", f"gap{at}", 0, "40M3D97M", gap) for at in range(6)] + [("b", f"more{at}", 0, "80M7I60M", more) for at in range(3)]
    rows += [("b", "failed", 512, "140M", snv), ("a", "snv0", 128, "140M", snv)]
    table = pl.DataFrame(
        [(s, name, flag, "1", 5_001, 60, cigar, "+", 0, None, None, 0, read, "I" * len(read)) for s, name, flag, cigar, read in rows],
        schema=ROWS.schema, orient="row",
    )  # fmt: skip
    found = run_stage(STAGE, {"rows": table})[""]
    shown = found.select("base_pair_location", "sample_id", "genotype", "depth", "ref_depth", "alt_depth").rows()
    assert shown[:2] == [(5_031, "a", "0/1", 8, 4, 4), (5_031, "b", "0/0", 9, 9, 0)]
    assert [row[:3] for row in shown[2:]] == [(5_040, "a", "0/0"), (5_040, "b", "0/1"), (5_080, "a", "0/0"), (5_080, "b", "0/1")]
    assert [row[4:] for row in shown[2:]] == [(8, 0), (3, 6), (8, 0), (6, 3)]
    assert found["ref"].to_list()[::2] == [bases[30], bases[39:43], bases[79]]
    assert found["alt"].to_list()[::2] == [snv[30], bases[39], bases[79] + "GATTACA"]
    assert counts_of(STAGE, {"rows": table}) == {"variants": 3, "indels": 2}


def test_pileup_calls__of_no_reads_are_none() -> None:
    assert run_stage(STAGE, {"rows": ROWS.filter(pl.col("flag") == 4)})[""].height == 0


def test_pileup_calls__refuse_other_tables_and_another_reference() -> None:
    with pytest.raises(StageError, match="no column 'bases'"):
        plan_stage(STAGE, {"rows": ROWS.drop("bases")})
    with pytest.raises(DataError, match=r"alignments lie on '7', and .* has no such sequence"):
        run_stage(STAGE, {"rows": ROWS.with_columns(chromosome=pl.lit("7"))})
