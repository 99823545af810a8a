"""clump."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import DataError, StageError
from pipeline.formats.plink import PlinkInput
from pipeline.stages.genomics.clump import Clump
from pipeline.tables.part import concat_parts
from pipeline.tables.session import ClusterSession
from pipeline.testing.examples import StageExample
from pipeline.testing.stages import plan_stage
from tests import example_tables as examples
from tests.kernels.plink_files import REFERENCE, needs_data
from tests.stages.genomics.cohorts import Cohort, Found, run, same_for_any_parts
from tests.stages.genomics.test_ld_prune import odd_cohort, scrambled

HITS = examples.GENOTYPES.frame.select(
    "chromosome", "base_pair_location", "variant_id", effect_allele="alt", other_allele="ref", trait=pl.lit("ldl"),
    p_value=pl.col("base_pair_location").cast(pl.Float64) % 13 / 20 + 0.001,
)  # fmt: skip
EXAMPLES = [
    StageExample(
        Clump(p1=0.3, p2=0.6, r2=0.02, kb=0.02),
        {"associations": HITS, "genotypes": examples.GENOTYPES},
        examples.AXES,
        {"r2": examples.P_VALUES},
        ordered=True,
    ),
]

# plink1.9 --clump-p1 0.3 --clump-p2 0.9 --clump-r2 0.2 --clump-kb 3 of the odd cohort with children: members of each clump, in its order.
ODD = {
    "28": "27 30", "46": "45 47", "78": "", "61": "62 63 64", "21": "18 22 24", "72": "", "1": "0", "10": "8 9", "13": "11 12 15",
    "42": "43", "73": "74 75", "14": "16", "39": "", "32": "", "35": "34 36 37", "69": "67", "38": "", "20": "19", "5": "6 7", "66": "65",
    "50": "48 49", "83": "82", "59": "57 58 60", "56": "", "79": "", "70": "", "81": "",
}  # fmt: skip
# plink1.9 --clump-p1 4e-10 --clump-p2 1e-3 --clump-r2 0.3 --clump-kb 250 of chromosome 20, by position.
KG = {
    "1000226": "", "3999849": "", "3180485": "", "2345775": "2338454 2341552 2343079 2344451 2345631 2352682",
    "1429135": "1393279 1395547 1397439 1397731 1399937 1403385 1406175 1409567 1413571 1415793 1428567",
    "3597166": "", "2743041": "", "1936986": "1928101 1970547 1985621 2034342", "3980877": "", "3165881": "3168977 3193687 3193893",
    "2333945": "", "1414037": "", "3577587": "", "2721054": "", "1924707": "1922914 1924127 1930084 1936292",
    "3963466": "3792507 3837736 3862472 3864393 3865948 3908411 3914200", "3149540": "", "2317490": "2317233 2318925 2326944",
}  # fmt: skip


def clump(**given: float) -> Clump:
    return Clump.model_validate({"p1": 0.3, "p2": 0.9, "r2": 0.2, "kb": 3, **given})


@cache
def cohort() -> Cohort:
    return odd_cohort(children=True)


def scan(data: Cohort | None = None, p_value: Any = None) -> pl.DataFrame:
    """Associations of every variant."""
    rows = (data or cohort()).rows.frame
    p = np.round(scrambled(1, 85, 9)[0] ** 2, 4) if p_value is None else p_value
    alleles = {"effect_allele": pl.col("alt"), "other_allele": pl.col("ref")}
    return rows.select("chromosome", "base_pair_location", "variant_id", **alleles).with_columns(beta=0.5, p_value=pl.Series(p))


def found(associations: pl.DataFrame, stage: Clump | None = None, parts: int = 1) -> dict[str, Found]:
    return run(stage or clump(), {"associations": associations, "genotypes": cohort()}, parts)


def members(frame: pl.DataFrame) -> dict[str, str]:
    assert frame["members"].to_list() == [len(ids.split(",")) if ids else 0 for ids in frame["member_ids"]]
    return dict(zip(frame["variant_id"], frame["member_ids"].str.replace_all(",", " "), strict=True))


def test_clump__gives_plinks_clumps() -> None:
    frame = found(scan())[""].frame
    assert list(members(frame).items()) == list(ODD.items())
    assert frame.columns[:6] == ["chromosome", "base_pair_location", "variant_id", "effect_allele", "other_allele", "beta"]
    assert frame["p_value"].is_sorted()
    np.testing.assert_allclose(frame["neg_log_10_p_value"], -np.log10(frame["p_value"]))


@needs_data
def test_clump__gives_plinks_clumps_of_chromosome_20() -> None:
    reader = PlinkInput.model_validate({"path": str(REFERENCE / "kgchr20" / "chr20.bed"), "parts": 3})
    data = Cohort(concat_parts([source.load() for source in reader.sources(1)]), reader.axes()["calls"])
    p_value = (((np.arange(24_990) * 7919) % 24_989 + 1) / 25_000) ** 3
    stage = clump(p1=4e-10, p2=1e-3, r2=0.3, kb=250)
    tables = run(stage, {"associations": scan(data, p_value), "genotypes": data}, 4)
    frame = tables[""].frame.with_columns(
        variant_id=pl.col("base_pair_location").cast(pl.String),
        member_ids=pl.col("member_ids").str.replace_all(r"[^,:]*:(\d+):[^,]*", "$1"),
    )
    assert list(members(frame).items()) == list(KG.items())
    assert tables[""].counts == {"hits": 2501, "unmatched": 0, "clumps": 18, "members": 38}
    shown = tables["ld"].frame
    assert shown["index_variant_id"].unique(maintain_order=True).to_list() == tables[""].frame["variant_id"].head(5).to_list()
    near = (shown["base_pair_location"].cast(pl.Int64) - shown["index_variant_id"].str.split(":").list.get(1).cast(pl.Int64)).abs()
    every = data.rows.frame["base_pair_location"].to_numpy()
    expected = sum(int((np.abs(every - place) < 250_000).sum()) for place in tables[""].frame["base_pair_location"].head(5))
    assert near.to_numpy().max() < 250_000
    assert shown.height == expected > 10_000
    linked = shown.filter(pl.col("r2") > 0.3, pl.col("p_value") <= 1e-3, pl.col("r2") < 1)
    assert set(linked["base_pair_location"].cast(pl.String)) >= set(KG["2345775"].split() + KG["1429135"].split())


def test_clump__finds_variants_by_alleles_either_way_round() -> None:
    swapped = scan().with_columns(
        effect_allele=pl.when(pl.int_range(85) % 2 == 0).then("other_allele").otherwise("effect_allele"),
        other_allele=pl.when(pl.int_range(85) % 2 == 0).then("effect_allele").otherwise("other_allele"),
    )
    assert members(found(swapped)[""].frame) == ODD


def test_clump__counts_associations_without_calls() -> None:
    other = pl.col("variant_id")
    changed = scan().with_columns(
        effect_allele=pl.when(other == "28").then(pl.lit("G")).otherwise("effect_allele"),
        chromosome=pl.when(other == "46").then(pl.lit("chr3")).otherwise("chromosome"),
        base_pair_location=pl.col("base_pair_location") + (other == "78").cast(pl.Int64),
        variant_id=pl.when(other == "61").then(pl.lit("rs61")).otherwise("variant_id"),
    )
    tables = found(changed)
    assert not {"28", "46", "78", "61", "rs61"} & set(tables[""].frame["variant_id"])
    assert tables[""].counts["unmatched"] == 4
    assert tables[""].counts["hits"] == scan().filter(pl.col("p_value") <= 0.9).height


def test_clump__takes_every_trait_by_itself_and_strength_past_the_least_double() -> None:
    strong = scan().select(pl.exclude("p_value"), trait=pl.lit("b"), neg_log_10_p_value=-pl.col("p_value").log10())
    # Two p-values of 0: only their -log10 tells the stronger.
    far = scan().with_columns(
        trait=pl.lit("a"), p_value=0.0, neg_log_10_p_value=pl.when(pl.col("variant_id") == "30").then(1073.2).otherwise(400.0)
    )
    both = pl.concat([strong.with_columns(p_value=10 ** -pl.col("neg_log_10_p_value")).select(far.columns), far])
    frame = found(both, clump(regions=2))[""].frame
    assert members(frame.filter(pl.col("trait") == "b")) == ODD
    assert frame.filter(pl.col("trait") == "a").row(0, named=True)["variant_id"] == "30"
    assert frame["trait"].to_list() == sorted(frame["trait"], reverse=True)


def test_clump__shows_the_surroundings_of_the_strongest() -> None:
    tables = found(scan(), clump(regions=3))
    shown = tables["ld"].frame
    assert shown["index_variant_id"].unique(maintain_order=True).to_list() == ["28", "46", "78"]
    assert shown.filter(pl.col("variant_id") == pl.col("index_variant_id"))["r2"].to_list() == pytest.approx([1, 1, 1])
    first = shown.filter(pl.col("index_variant_id") == "28")
    assert first["variant_id"].to_list() == [str(number) for number in range(24, 32)]
    linked = first.filter((pl.col("r2") > 0.2) & (pl.col("variant_id") != "28"))["variant_id"].to_list()
    assert linked == ["27", "30"]
    assert first["p_value"].to_list() == scan()["p_value"][24:32].to_list()
    assert found(scan(), clump(regions=0))["ld"].frame.height == 0


def test_clump__has_no_r2_where_a_variant_does_not_vary() -> None:
    tables = found(scan().filter(pl.col("variant_id").is_in(["32", "33", "31"])), clump(p1=0.9))
    assert set(tables["ld"].frame.filter(pl.col("index_variant_id") == "32")["r2"]) == {None}
    assert found(scan().filter(pl.col("variant_id") == "5"))["ld"].frame["r2"].to_list() == [1.0]


def test_clump__gives_no_clumps_where_nothing_is_strong() -> None:
    weak = scan(p_value=np.full(85, 0.5))
    tables = found(weak)
    assert (tables[""].frame.height, tables["ld"].frame.height) == (0, 0)
    assert tables[""].counts == {"hits": 85, "unmatched": 0, "clumps": 0, "members": 0}
    assert found(weak.with_columns(p_value=pl.lit(None, pl.Float64)))[""].counts["hits"] == 0


def test_clump__is_the_same_in_any_parts_and_processes(workers: ClusterSession) -> None:
    traits = pl.concat(
        [scan().with_columns(trait=pl.lit("t")), scan().with_columns(trait=pl.lit("u"), p_value=pl.col("p_value").reverse())]
    )
    tables = same_for_any_parts(clump(), {"genotypes": cohort(), "associations": traits}, workers)
    assert members(tables[""].frame.filter(pl.col("trait") == "t")) == ODD


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"chromosome": "chr" + pl.col("chromosome")}, "0 is at chr0:100 C/A in the associations and at 0:100 A/C in the genotypes"),
        ({"variant_id": "rs" + pl.col("variant_id")}, "rs0 is at 0:100 C/A, and no variant of the genotypes has its id"),
    ],
)
def test_clump__refuses_associations_of_which_none_has_calls(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"stage tested: no association finds its calls. {message}"):
        found(scan().with_columns(**columns))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"p1": 0.5, "p2": 0.1}, "p2 0.1 is below p1 0.5"),
        ({"r2": 1.0}, "less than 1"),
        ({"p1": 0}, "greater than 0"),
        ({"kb": -1}, "greater"),
    ],
)
def test_clump__refuses_parameters(given: dict[str, float], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        clump(**given)


@pytest.mark.parametrize(
    ("dropped", "message"),
    [("p_value", "neither p_value nor neg_log_10_p_value"), ("other_allele", "'associations' has no column 'other_allele'")],
)
def test_clump__refuses_associations_without_what_it_needs(dropped: str, message: str) -> None:
    with pytest.raises(StageError, match=message):
        plan_stage(clump(), {"associations": scan().drop(dropped), "genotypes": cohort().rows}, {"calls": cohort().people})


def test_clump__refuses_genotypes_without_calls() -> None:
    with pytest.raises(StageError, match="given as 'genotypes' has no calls"):
        plan_stage(clump(), {"associations": scan(), "genotypes": cohort().rows.frame})
