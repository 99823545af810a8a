"""jobs/align.yaml: what was planted is called, and what it publishes is read by others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline import api
from pipeline.formats.vcf import VcfInput
from pipeline.stages.genomics.variant_qc import VariantQc
from pipeline.testing.formats import read_table
from pipeline.testing.stages import run_parts

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data" / "alignment"
REFERENCE = str(DATA / "reference.fa.gz")
SITE = ["chromosome", "base_pair_location", "ref", "alt"]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped, its files found from anywhere."""
    pytest.importorskip("mappy")
    pytest.importorskip("pysam")
    paths: dict[str, Any] = {
        f"inputs__{name}__path": [str(DATA / f"{name}_{at}.fastq.gz") for at in (1, 2)] for name in ("mother", "child")
    }
    paths |= {f"stages__{name}__reference": REFERENCE for name in ("aligned", "depths", "calls")}
    job = api.load(
        ROOT / "jobs" / "align.yaml", results=str(tmp_path_factory.mktemp("align")), cluster__dashboard=False,
        outputs__reads__reference=REFERENCE, **paths,
    )  # fmt: skip
    return job.run()


def test_the_calls__are_what_was_planted(shipped: api.Run) -> None:
    planted = pl.read_csv(DATA / "planted.csv", schema_overrides={"chromosome": pl.String})
    planted = planted.unpivot(index=SITE, variable_name="sample_id", value_name="planted")
    calls = shipped.table("calls").to_polars()
    both = planted.join(calls, on=[*SITE, "sample_id"], how="full", coalesce=True)
    assert both.height == planted.height == 178
    assert (both["planted"] == both["genotype"]).all()


def test_the_vcf__is_read_by_variant_qc(shipped: api.Run) -> None:
    told = re.search(r"results/align/current/(\S+\.vcf\.gz)", (ROOT / "jobs" / "align.yaml").read_text(encoding="utf-8"))
    assert told  # where the job's own comment says that it lies
    reader = VcfInput.model_validate({"path": str(Path(shipped.path) / told[1])})
    axes = {name: frame.cast(reader.table_schema().arrays[name]) for name, frame in reader.axes().items()}
    (part,) = run_parts(VariantQc(min_call_rate=0.9), {"genotypes": [read_table(reader)]}, axes=axes)[""]
    calls = shipped.table("calls").to_polars()
    assert part.frame.select(SITE).rows() == calls.select(SITE).unique(maintain_order=True).rows()
    copies = (
        calls.with_columns(copies=pl.col("genotype").str.count_matches("1"))
        .group_by(SITE, maintain_order=True)
        .agg(pl.col("copies").sum() / 4)
    )
    assert part.frame["alt_frequency"].to_list() == copies["copies"].to_list()


def test_the_bam__has_every_alignment_in_order_and_an_index(shipped: api.Run) -> None:
    import pysam

    rows = shipped.table("alignments").to_polars()
    with pysam.AlignmentFile(str(Path(shipped.path) / "reads" / "reads.bam")) as file:
        counted = {line.contig: line.mapped for line in file.get_index_statistics()}
        assert counted == dict(rows.group_by("chromosome").len().rows())
        assert [line.reference_start + 1 for line in file] == rows["base_pair_location"].to_list()


def test_the_depth__is_what_was_made(shipped: api.Run) -> None:
    depths = shipped.table("depths").to_polars()
    assert depths.height == 2 * 80
    mean = depths.group_by("sample_id").agg(pl.col("mean_depth").mean()).sort("sample_id")
    assert mean["mean_depth"].to_list() == pytest.approx([30, 30], rel=0.02)
