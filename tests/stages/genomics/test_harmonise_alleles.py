"""harmonise_alleles: what PLINK 2's --ref-from-fa turns round, and alleles of either strand that come back to what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, InputError, RunError, StageError
from pipeline.kernels.genotypes import pack
from pipeline.stages.genomics.harmonise_alleles import HarmoniseAlleles
from pipeline.tables.part import Part
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.stages.genomics.cohorts import Cohort, run, same_for_any_parts
from tests.stages.genomics.hard_reads import REFERENCE
from tests.stages.genomics.test_dosages import certain

EXAMPLES = [
    StageExample(HarmoniseAlleles(reference=str(REFERENCE)), {"rows": examples.GENOTYPES}, examples.AXES),
    StageExample(HarmoniseAlleles(reference=str(REFERENCE), strand="either"), {"rows": examples.GENOTYPES}, examples.AXES),
]
LETTERS = list("ACGT")
OTHER = dict(zip("ACGT", "TGCA", strict=True))

# Of `study()`: plink2 v2.00a3.5 --ref-from-fa force; x changed, = left as it was.
PLINK = "x=x====x=======xxx========x==========x=====x==x=x===x====xx=x===x=x====xx=====xxxx=xx=xx=="


def study(folder: Path) -> tuple[str, Cohort]:
    """A reference of three sequences, and 90 variants with seven people whose alleles are right, turned round, other ones, or longer."""
    random = np.random.default_rng(3)
    sequences = {"chr1": random.choice(LETTERS, 300), "2": random.choice([*LETTERS, "N"], 100), "X": random.choice(LETTERS, 80)}
    lines = [f">{name}\n{''.join(bases[:60])}\n{''.join(bases[60:]).lower()}\n" for name, bases in sequences.items()]
    (folder / "reference.fa").write_text("".join(lines))
    rows = []
    for name, bases in sequences.items():
        for place in sorted(random.choice(len(bases) - 5, 30, replace=False).tolist()):
            kind, own = int(random.integers(8)), str(bases[place])
            other = str(random.choice([base for base in LETTERS if base != own]))
            kinds = {3: (other, own), 4: (other, own), 5: tuple(random.permutation(LETTERS)[:2].tolist()), 7: (own, own + other)}
            kinds[6] = ("".join(bases[place : place + 3]), own)
            rows.append((name, place + 1, *kinds.get(kind, (own, other))))
    schema = {"chromosome": pl.String(), "base_pair_location": pl.Int64(), "ref": pl.String(), "alt": pl.String()}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame = frame.with_columns(pl.format("v{}", pl.int_range(pl.len())).alias("variant_id"))
    calls = random.integers(0, 4, (len(rows), 7)).astype(np.uint8)
    people = pl.DataFrame({"sample_id": [f"s{at}" for at in range(7)]})
    return str(folder / "reference.fa"), Cohort(Part(frame, {"calls": pack(calls)}), people)


def test_harmonise__turns_round_what_plink_does(tmp_path: Path, workers: ClusterSession) -> None:
    reference, cohort = study(tmp_path)
    found = same_for_any_parts(HarmoniseAlleles(reference=reference), {"rows": cohort}, workers)
    kept, out = found[""], found["unmatched"].frame
    told = dict.fromkeys(out["variant_id"], "?")
    before = cohort.rows.frame.rows_by_key("variant_id", named=True, unique=True)
    for row in kept.frame.iter_rows(named=True):
        was = before[row["variant_id"]]
        told[row["variant_id"]] = "=" if was["ref"] == row["ref"] else "x"
        assert {was["ref"], was["alt"]} == {row["ref"], row["alt"]}
    assert "".join(told[name] for name in cohort.rows.frame["variant_id"]).replace("?", "=") == PLINK
    assert kept.counts == {"rows_in": 90, "rows_swapped": 27, "rows_flipped": 0, "rows_unmatched": 13, "rows_elsewhere": 0}
    assert out["reason"].value_counts(sort=True).rows() == [
        ("neither allele is the reference's", 6),
        ("an allele is not of A, C, G and T", 5),
        ("the reference has no base there", 2),
    ]
    codes = np.array([0, 1, 2, 3])
    of = {name: at for at, name in enumerate(cohort.rows.frame["variant_id"])}
    mine = Cohort(kept.part, cohort.people).codes
    for at, name in enumerate(kept.frame["variant_id"]):
        theirs = cohort.codes[of[name]]
        assert mine[at].tolist() == (np.array([2, 1, 0, 3]) if told[name] == "x" else codes)[theirs].tolist()
    assert (kept.part.arrays["calls"][:, -1] >> 6 == 0).all()  # no bit where nobody is


def test_harmonise__brings_back_alleles_of_either_strand(tmp_path: Path) -> None:
    bases = "".join(np.random.default_rng(8).choice(LETTERS, 400))
    (tmp_path / "reference.fa").write_text(f">chr4\n{bases}\n")
    random = np.random.default_rng(9)
    rows, truth = [], []
    for place in range(300):
        own = bases[place]
        other = str(random.choice([base for base in LETTERS if base != own]))
        swapped, flipped = bool(random.integers(2)), bool(random.integers(2))
        alleles = (other, own) if swapped else (own, other)
        rows.append(("4", place + 1, *(OTHER[one] if flipped else one for one in alleles), 0.5, 2.0, 0.3, place))
        if OTHER[own] != other:
            truth.append((place + 1, own, other, *((-0.5, -2.0, 0.7) if swapped else (0.5, 2.0, 0.3)), place))
    names = ["chromosome", "base_pair_location", "other_allele", "effect_allele", "beta", "statistic", "effect_allele_frequency", "n"]
    table = pl.DataFrame(rows, schema=names, orient="row")
    found = run(HarmoniseAlleles(reference=str(tmp_path / "reference.fa"), strand="either"), {"rows": table}, 3)
    assert found[""].frame.select(names[1:]).rows() == truth
    assert {*found["unmatched"].frame["reason"]} == {"an allele and its complement: the strand cannot be told"}
    assert found[""].counts["rows_flipped"] > 50
    forward = run(HarmoniseAlleles(reference=str(tmp_path / "reference.fa")), {"rows": table})
    assert forward["unmatched"].frame.height > 50


def test_harmonise__turns_ratios_and_their_limits_and_dosages_round(tmp_path: Path) -> None:
    (tmp_path / "reference.fa").write_text(">1\nACGT\n")
    names = ["chromosome", "base_pair_location", "other_allele", "effect_allele", "odds_ratio", "ci_lower", "ci_upper"]
    rows: list[tuple[Any, ...]] = [
        ("chr1", 1, "A", "G", 2.0, 1.0, 4.0),
        ("chr1", 2, "T", "c", 2.0, 1.0, 4.0),
        ("chr1", 9, "A", "G", 2.0, 1.0, 4.0),
    ]
    rows += [("chr1", 3, None, "G", 2.0, 1.0, 4.0)]
    stage = HarmoniseAlleles(reference=str(tmp_path / "reference.fa"))
    table = pl.DataFrame(rows, schema=names, orient="row")
    found = run(stage, {"rows": table})
    assert found[""].frame.rows() == [rows[0], ("chr1", 2, "C", "T", 0.5, 0.25, 1.0)]
    assert found["unmatched"].frame["reason"].to_list() == ["the reference has no base there", "an allele is not of A, C, G and T"]
    logs = table.rename({"odds_ratio": "beta"})
    assert run(stage, {"rows": logs})[""].frame.rows()[1] == ("chr1", 2, "C", "T", -2.0, -4.0, -1.0)
    with pytest.raises(StageError, match=r"ci_lower and ci_upper may be of beta or of odds_ratio, and both are there\. Drop one"):
        plan_stage(stage, {"rows": table.with_columns(beta=1.0)})
    reference, cohort = study(tmp_path)
    sure = run(HarmoniseAlleles(reference=reference), {"rows": certain(cohort)})[""].part.arrays["alt_dosages"]
    calls = Cohort(run(HarmoniseAlleles(reference=reference), {"rows": cohort})[""].part, cohort.people).codes
    assert np.array_equal(np.nan_to_num(sure, nan=3), calls)


def test_harmonise__warns_of_another_build_and_refuses_no_file() -> None:
    stage = HarmoniseAlleles(reference=str(REFERENCE))
    (text,) = stage.noticed({"rows_in": 1000, "rows_unmatched": 700})
    assert text.startswith("700 of 1,000 rows do not fit the reference. Is it of the build of the rows?")
    assert not stage.noticed({"rows_in": 1000, "rows_unmatched": 70})
    table = pl.DataFrame({"chromosome": ["1"], "base_pair_location": [1], "ref": ["A"], "alt": ["G"]})
    with pytest.raises(InputError, match=r"nowhere\.fa"):
        plan_stage(HarmoniseAlleles(reference="nowhere.fa"), {"rows": table})


def test_harmonise__of_sequences_by_other_names_warns_and_is_told_which_are_which(tmp_path: Path) -> None:
    reference, cohort = study(tmp_path)
    expected = run(HarmoniseAlleles(reference=reference), {"rows": cohort})
    other = tmp_path / "ncbi.fa"
    other.write_text(Path(reference).read_text().replace(">chr1", ">NC_1.11").replace(">2", ">NC_2.12").replace(">X", ">NC_23.11"))
    lost = run(HarmoniseAlleles(reference=str(other)), {"rows": cohort})
    assert lost[""].frame.is_empty()
    letters = cohort.rows.frame.filter(pl.all_horizontal(pl.col("ref", "alt").str.contains("^[ACGT]+$"))).height
    assert lost[""].counts["rows_elsewhere"] == letters > 80
    assert lost["unmatched"].frame["reason"].value_counts().rows_by_key("reason")["the reference has no such sequence"] == [(letters,)]
    (text,) = HarmoniseAlleles(reference=str(other)).noticed({"rows_in": 100, "rows_unmatched": 100, "rows_elsewhere": 99})
    assert text.startswith("99 of 100 rows are on chromosomes that the reference lacks (it has NC_1.11, NC_2.12, NC_23.11 ...). Say which")
    renamed = HarmoniseAlleles(reference=str(other), rename={"NC_1.11": "1", "NC_2.12": "2", "NC_23.11": "X"})
    found = run(renamed, {"rows": cohort})
    assert found[""].frame.equals(expected[""].frame)
    assert found["unmatched"].frame.equals(expected["unmatched"].frame)
    with pytest.raises((DataError, RunError), match=r"has no sequence 'NC_1.10'. Did you mean 'NC_1.11'"):
        run(HarmoniseAlleles(reference=str(other), rename={"NC_1.10": "1"}), {"rows": cohort})
