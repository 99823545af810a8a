"""jobs/imputed.yaml: dosages from a VCF through every step to what PLINK 2.00a3.5 gives for the same steps, and to the page."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline import api

ROOT = Path(__file__).parents[1]
FILES = {"imputed": "chr22.vcf.gz", "sheet": "samples.csv", "weights": "weights.csv"}
# PLINK's --pca 4 of the pruned, --glm's strongest (BETA, SE, P; A1 is ALT but where said) and --score of some people.
STRONGEST = [
    ("22:20523144:T:C", 0.518235, 0.072399, 4.79801e-12),
    ("22:20525059:T:C", 0.527724, 0.0781962, 6.15582e-11),  # A1 is REF
    ("22:17368509:A:G", 0.520686, 0.0904767, 1.88679e-08),  # A1 is REF
    ("22:22776898:A:C", 0.587762, 0.115535, 5.91923e-07),
]
EIGENVALUES = [22.5376, 10.6027, 7.89316, 7.68814]
SCORES = {"P5842": -1.20319, "P9875": -0.370014, "P3410": 0.0885836}
INBREEDING = {"P5842": 0.0601587, "P9875": 0.0511255}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> api.Run:
    """The job as it is shipped, its files found from anywhere, and the eigenvalues written too."""
    paths = {f"inputs__{name}__path": str(ROOT / "data" / "imputed" / file) for name, file in FILES.items()}
    paths |= {"results": str(tmp_path_factory.mktemp("imputed"))}
    eigenvalues = {"from": "axes.eigenvalues"}
    job = api.load(ROOT / "jobs" / "imputed.yaml", cluster__dashboard=False, outputs__eigenvalues=eigenvalues, **paths)
    return job.run()


def table(run: api.Run, name: str) -> pl.DataFrame:
    return run.table(name).to_polars()


def test_quality__keeps_what_plink_keeps(shipped: api.Run) -> None:
    variants, people = table(shipped, "variants"), table(shipped, "samples")
    assert variants.height == 1_148
    assert variants["mach_r2"].min() >= 0.3  # type: ignore[operator]
    assert people["kept"].all()
    assert people.height == 360
    inbreeding = dict(people.select("sample_id", "inbreeding").rows())
    assert {name: inbreeding[name] for name in INBREEDING} == pytest.approx(INBREEDING, abs=5e-6)


def test_axes__are_plinks(shipped: api.Run) -> None:
    assert table(shipped, "eigenvalues")["eigenvalue"].to_list() == pytest.approx(EIGENVALUES, rel=1e-5)


def test_scan__is_plinks_and_finds_the_causal_variants(shipped: api.Run) -> None:
    found = table(shipped, "associations").head(len(STRONGEST))
    rows = found.select("variant_id", "beta", "standard_error", "p_value").rows()
    assert [row[0] for row in rows] == [row[0] for row in STRONGEST]
    for (_, *numbers), (_, *printed) in zip(rows, STRONGEST, strict=True):
        assert numbers == pytest.approx(printed, rel=2e-3)
    causal = pl.read_csv(ROOT / "data" / "imputed" / "weights.csv")["variant_id"].head(3).to_list()
    assert set(causal) <= set(found["variant_id"])
    assert table(shipped, "loci")["variant_id"].to_list() == [STRONGEST[0][0], STRONGEST[2][0]]


def test_scores__are_plinks_and_go_with_the_trait(shipped: api.Run) -> None:
    scores = table(shipped, "scores")
    sums = dict(scores.select("sample_id", "score_sum").rows())
    assert {name: sums[name] for name in SCORES} == pytest.approx(SCORES, abs=1e-4)
    assert scores.select(pl.corr("score_sum", "cholesterol")).item() > 0.4


def test_page__has_the_scan_and_says_how_many_were_imputed_badly(shipped: api.Run) -> None:
    page = Path(shipped.report).read_text(encoding="utf-8")
    assert "imputed too badly" in page
    assert "Manhattan" in page
