"""coverage: beside samtools depth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.formats.bam import BamOutput
from pipeline.stages.genomics.coverage import Coverage
from pipeline.testing.examples import StageExample
from pipeline.testing.formats import write_table
from pipeline.testing.stages import assert_same_for_any_parts, plan_stage, run_stage
from tests.stages.genomics.alignment_rows import alignments
from tests.stages.genomics.hard_reads import REFERENCE

ROWS = alignments(400)
STAGE = Coverage(reference=str(REFERENCE), window=700)
EXAMPLES = [StageExample(STAGE, {"rows": ROWS})]


def test_coverage__of_each_base_is_that_of_samtools(tmp_path: Path) -> None:
    pysam = pytest.importorskip("pysam")
    for quality in (0, 30):
        (bam, _) = write_table(BamOutput(reference=str(REFERENCE)), ROWS, tmp_path / str(quality))
        counted = [line.split("\t") for line in pysam.samtools.depth("-aa", "-Q", str(quality), str(bam)).splitlines()]
        found = run_stage(Coverage(reference=str(REFERENCE), window=1, min_mapping_quality=quality), {"rows": ROWS}, parts=3)[""]
        depth = found.group_by("chromosome", "start").agg(pl.col("mean_depth").sum()).sort("chromosome", "start")
        assert [(name, int(at)) for name, at, _ in counted] == depth.select("chromosome", "start").rows()
        np.testing.assert_array_equal(depth["mean_depth"].to_numpy(), [int(number) for *_, number in counted])
        assert depth.filter(pl.col("mean_depth") > 3).height


def test_coverage__has_every_window_of_every_sample() -> None:
    found = assert_same_for_any_parts(STAGE, {"rows": ROWS}, ["sample_id", "chromosome", "start"])
    windows = [("1", at + 1, min(at + 700, 60_000)) for at in range(0, 60_000, 700)] + [
        ("2", at + 1, min(at + 700, 20_000)) for at in range(0, 20_000, 700)
    ]
    for sample in ("a", "b"):
        assert found.filter(sample_id=sample).select("chromosome", "start", "end").rows() == windows
    bases = run_stage(Coverage(reference=str(REFERENCE), window=1), {"rows": ROWS})[""]
    length = pl.col("end") - pl.col("start") + 1
    assert found.select((length * pl.col("mean_depth")).sum()).item() == pytest.approx(bases["mean_depth"].sum(), rel=1e-12)


def test_coverage__refuses_other_tables_and_another_reference() -> None:
    with pytest.raises(StageError, match="no column 'cigar'"):
        plan_stage(STAGE, {"rows": ROWS.drop("cigar")})
    with pytest.raises(DataError, match=r"alignments lie on '7', and .* has no such sequence.* Give the reference that was aligned to"):
        run_stage(STAGE, {"rows": ROWS.with_columns(chromosome=pl.lit("7"))})
