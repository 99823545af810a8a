"""linear_gwas by the way genotypes count: codings, sex chromosomes, dosages, and the rows that max_p keeps.

The rows in text are what PLINK 2.00a3.5 printed with `--glm omit-ref hide-covar [dominant | recessive] cols=+a1freq` and
`--covar-variance-standardize`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import DataError, StageError
from pipeline.genome.chromosomes import chromosome_kind
from pipeline.stages.genomics.linear_gwas import LinearGwas
from pipeline.tables.part import Part, concat_parts
from pipeline.testing.stages import plan_stage, run_parts
from tests.kernels.plink_files import DATA, assert_printed, floats, needs_data, read_bed, read_columns
from tests.stages.genomics.cohorts import COVARIATES, Cohort, Found, hapmap3, hapmap3_sheet, run, small_cohort, small_sheet

WITHOUT_SEX = tuple(name for name in COVARIATES if name != "sex01")
NUMBERS = ("effect_allele_frequency", "beta", "standard_error", "statistic", "p_value")

# variant, allele counted, its frequency, n, beta, standard error, t, p
SEX_CHROMOSOMES = """
rs7889235 C 0.497323 934 0.00460443 0.0617761 0.0745342 0.940602
rs845440 A 0.498396 935 -0.0897266 0.0603846 -1.48592 0.137643
rs5925918 T 0.503202 937 0.0408516 0.0608651 0.671183 0.502272
rs2224075 G 0.489861 937 -0.0184551 0.0631244 -0.29236 0.770077
rs12841108 A 0.0229701 936 -0.106064 0.187209 -0.566555 0.571154
rs17336662 A 0.505876 936 -0.089355 0.0611995 -1.46006 0.144614
rs17313135 T 0.0603632 936 0.078776 0.121327 0.649285 0.516316
rs6619797 G 0.499466 936 -0.0218817 0.0600549 -0.364362 0.715671
rs858161 A 0.0176094 937 -0.102961 0.238454 -0.431787 0.665997
rs17331586 C 0.0679872 934 -0.16307 0.11784 -1.38382 0.166749
rs1293523 C 0.498925 930 -0.0267742 0.0637872 -0.419743 0.674772
rs6528435 A 0.502137 936 -0.0213 0.0634341 -0.335781 0.737112
rs12689869 G 0.499466 936 0.0546691 0.0619625 0.882294 0.377848
rs17320297 A 0.028403 933 -0.185221 0.172928 -1.07109 0.284412
rs17281342 T 0.0219721 933 0.0724271 0.216424 0.334654 0.737962
rs5945460 C 0.128357 931 0.00679737 0.110601 0.0614585 0.951007
rs5988283 G 0.264232 931 -0.0358328 0.0826138 -0.433738 0.66458
rs5948849 G 0.459096 929 -0.0218564 0.0723056 -0.302278 0.762509
rs5983086 G 0.475454 937 -0.0384322 0.0744969 -0.515889 0.606055
rs35970878 T 0.481303 936 0.168835 0.0763672 2.21083 0.0272922
rs28600732 A 0.0149413 937 -0.422353 0.42237 -0.99996 0.317591
rs3135028 A 0.042735 936 0.136688 0.260001 0.525723 0.599207
rs28358887 A 0.0128617 933 0.46041 0.452565 1.01734 0.309262
rs28358270 A 0.0192102 937 0.12887 0.374893 0.343751 0.731112
rs28380140 G 0.0171306 934 -0.220124 0.393749 -0.559047 0.576265
rs28357673 T 0.0107181 933 0.209577 0.497296 0.421433 0.673537
rs28357682 A 0.0640342 937 0.165781 0.213831 0.77529 0.438367
rs28573847 A 0.477054 937 -0.0275249 0.121671 -0.226223 0.821078
rs2853510 G 0.0192102 937 0.536996 0.368895 1.45569 0.145818
"""
AUTOSOMES_AS_Y = """
rs4970383 A 0.334056 461 -0.191397 0.228958 -0.835949 0.403629
rs3748592 A 0.0770065 461 0.304528 0.397766 0.765595 0.44432
rs9442373 C 0.441432 461 -0.0872885 0.206399 -0.422912 0.672562
rs1571150 A 0.483731 461 -0.0760044 0.213229 -0.356445 0.721675
rs6687029 C 0.253796 461 0.183947 0.241228 0.762546 0.446136
rs4074196 C 0.477174 460 0.0166444 0.205838 0.0808618 0.935588
"""
DOMINANT = """
rs28508199 A 0.501067 937 0.156918 0.135574 1.15743 0.247395
rs11577354 A 0.495187 935 -0.0436795 0.116522 -0.37486 0.707851
rs10498095 G 0.0870726 936 -0.366105 0.135855 -2.69481 0.00717085
rs6444269 G 0.434759 935 0.0727899 0.110869 0.656537 0.511642
rs200107 A 0.466916 937 0.197625 0.11422 1.73021 0.0839271
rs2596534 C 0.446105 937 0.0540394 0.110708 0.488125 0.625577
rs4730480 A 0.49893 935 0.12236 0.116833 1.04731 0.295232
rs2919330 A 0.338314 937 0.150128 0.104134 1.44168 0.149732
rs4245610 T 0.494124 936 0.19535 0.116453 1.6775 0.0937824
rs6589877 G 0.10619 937 0.0833758 0.127073 0.656127 0.511906
rs4943769 A 0.0186766 937 -0.415145 0.277931 -1.4937 0.135595
rs552702 G 0.486126 937 -0.00655349 0.119828 -0.0546909 0.956397
rs748196 G 0.448773 937 -0.0696218 0.111307 -0.625496 0.5318
rs3212760 G 0.423077 936 0.0905917 0.111754 0.810635 0.417784
rs5945460 C 0.128357 931 -0.0139338 0.122461 -0.113781 0.909436
rs5988283 G 0.264232 931 -0.090877 0.103207 -0.880533 0.378801
rs5948849 G 0.459096 929 -0.030406 0.111977 -0.271537 0.786039
rs5983086 G 0.475454 937 -0.137955 0.116937 -1.17974 0.238407
rs35970878 T 0.481303 936 0.162088 0.119099 1.36095 0.173862
"""
RECESSIVE = """
rs28508199 A 0.501067 937 -0.231771 0.122854 -1.88656 0.0595326
rs11577354 A 0.495187 935 -0.00314215 0.116779 -0.0269068 0.97854
rs10498095 G 0.0870726 936 0.295474 0.700707 0.42168 0.673357
rs6444269 G 0.434759 935 0.218133 0.127671 1.70855 0.0878704
rs200107 A 0.466916 937 -0.119957 0.125985 -0.95215 0.34127
rs2596534 C 0.446105 937 -0.0643987 0.127189 -0.506325 0.612749
rs4730480 A 0.49893 935 -0.0936072 0.11641 -0.804113 0.421539
rs2919330 A 0.338314 937 -0.011624 0.161074 -0.0721658 0.942486
rs4245610 T 0.494124 936 -0.0223736 0.120483 -0.185699 0.852721
rs6589877 G 0.10619 937 0.200081 0.494429 0.40467 0.685814
rs4943769 A 0.0186766 937 -0.0446529 1.55012 -0.0288061 0.977025
rs552702 G 0.486126 937 0.117663 0.120744 0.974476 0.330075
rs748196 G 0.448773 937 0.00239512 0.128771 0.0185999 0.985164
rs3212760 G 0.423077 936 -0.0565093 0.13758 -0.410737 0.681361
rs5945460 C 0.128357 931 0.232708 0.395815 0.58792 0.55673
rs5988283 G 0.264232 931 0.131529 0.200343 0.656517 0.511656
rs5948849 G 0.459096 929 -0.0276955 0.125604 -0.220498 0.825532
rs5983086 G 0.475454 937 0.0485107 0.124076 0.390975 0.695906
rs35970878 T 0.481303 936 0.276449 0.125742 2.19853 0.0281586
rs2308950 T 0.0117521 936 NA NA NA NA
rs12124688 A 0.0165422 937 NA NA NA NA
"""
DOSAGES = {
    "additive": """
1 C 0.229082 490 -0.0444087 0.0462731 -0.959709 0.33768
121 C 0.197832 490 -0.131903 0.0498805 -2.64438 0.00844933
241 C 0.199585 490 -0.0176289 0.0508888 -0.34642 0.729178
361 C 0.202234 491 0.0786553 0.0478842 1.64261 0.10111
481 C 0.22626 491 0.0770305 0.0466477 1.65133 0.0993182
601 C 0.106575 491 -0.0397947 0.0675496 -0.589119 0.556055
721 C 0.115721 490 -0.0899155 0.0629298 -1.42882 0.153699
841 C 0.120918 490 0.0420214 0.0640399 0.656176 0.512022
""",
    "dominant": """
1 C 0.229082 490 -0.0193584 0.0582043 -0.332594 0.739584
121 C 0.197832 490 -0.173711 0.0603593 -2.87795 0.00417935
241 C 0.199585 490 -0.012742 0.0597996 -0.213079 0.831355
361 C 0.202234 491 0.0993504 0.0596242 1.66628 0.096303
481 C 0.22626 491 0.0873094 0.0588429 1.48377 0.138518
601 C 0.106575 491 -0.0452325 0.0756839 -0.59765 0.550352
721 C 0.115721 490 -0.1216 0.0738663 -1.64622 0.100367
841 C 0.120918 490 0.0384905 0.0727236 0.529271 0.59686
""",
    "recessive": """
1 C 0.229082 490 -0.238196 0.125601 -1.89645 0.0584949
121 C 0.197832 490 -0.124812 0.15219 -0.820101 0.412561
241 C 0.199585 490 -0.0949587 0.171068 -0.555094 0.579086
361 C 0.202234 491 0.11493 0.134678 0.85337 0.393875
481 C 0.22626 491 0.162987 0.126815 1.28523 0.199324
601 C 0.106575 491 -0.0724024 0.296369 -0.244298 0.807103
721 C 0.115721 490 -0.0225302 0.224447 -0.100381 0.920083
841 C 0.120918 490 0.201605 0.260658 0.773446 0.439635
""",
}


def assert_rows(found: pl.DataFrame, text: str) -> None:
    """Every number of PLINK's rows; NA is a null with a reason."""
    table = np.array([line.split() for line in text.strip().splitlines()])
    rows = pl.DataFrame({"variant_id": table[:, 0]}).join(found, on="variant_id", how="left", maintain_order="left")
    assert rows["effect_allele"].to_list() == table[:, 1].tolist()
    assert rows["n"].to_list() == table[:, 3].astype(int).tolist()
    for name, column, tolerance in zip(NUMBERS, (2, 4, 5, 6, 7), (1e-9, 5e-7, 5e-7, 5e-6, 5e-6), strict=True):
        known = table[:, column] != "NA"
        assert_printed(rows[name].to_numpy()[known], table[known, column], tolerance)
        assert rows[name].is_null().to_list() == (~known).tolist()
    assert rows["reason"].is_not_null().to_list() == (table[:, 4] == "NA").tolist()


def hapmap3_scan(cohort: Cohort | None = None, **given: Any) -> Found:
    stage = LinearGwas.model_validate({"traits": ("y_lin",), "covariates": WITHOUT_SEX, **given})
    return run(stage, {"genotypes": cohort or hapmap3(), "samples": hapmap3_sheet()}, 2)[""]


def small(cohort: Cohort, sheet: pl.DataFrame | None = None, **given: Any) -> Found:
    stage = LinearGwas.model_validate({"traits": ("height",), "covariates": ("age",), **given})
    return run(stage, {"genotypes": cohort, "samples": small_sheet() if sheet is None else sheet})[""]


def with_sex(sex: list[int | None] | None = None) -> Cohort:
    """The small cohort, whose people are male and female in turn, or as given."""
    cohort = small_cohort()
    sexes = pl.Series(sex or [1 + i % 2 for i in range(cohort.people.height)], dtype=pl.Int8)
    return Cohort(cohort.rows, cohort.people.with_columns(sex=sexes))


@needs_data
def test_linear_gwas__of_sex_chromosomes_is_plinks_with_sex_from_the_genotype_table() -> None:
    found = hapmap3_scan()
    assert_rows(found.frame, SEX_CHROMOSOMES)
    assert found.frame["reason"].null_count() == found.frame.height


@needs_data
def test_linear_gwas__of_y_is_plinks() -> None:
    cohort = hapmap3()
    as_y = cohort.rows.replaced(frame=cohort.rows.frame.with_columns(chromosome=pl.lit("chrY")))
    rows = Part(as_y.frame[:200], {"calls": as_y.arrays["calls"][:200]})
    assert_rows(hapmap3_scan(Cohort(rows, cohort.people)).frame, AUTOSOMES_AS_Y)


@needs_data
@pytest.mark.parametrize(("coding", "text"), [("dominant", DOMINANT), ("recessive", RECESSIVE)])
def test_linear_gwas__of_a_coding_is_plinks(coding: str, text: str) -> None:
    found = hapmap3_scan(coding=coding).frame
    assert_rows(found, text)
    assert set(found["test"]) == {f"linear {coding}"}
    haploid = found.filter(chromosome_kind() == "mt")
    assert set(haploid["reason"]) == {"dominant and recessive coding need two copies of the chromosome"}
    assert haploid["beta"].null_count() == haploid.height == 9


@needs_data
@pytest.mark.parametrize("coding", ["additive", "dominant", "recessive"])
@pytest.mark.parametrize("parts", [1, 3])
def test_linear_gwas__of_dosages_is_plinks(coding: str, parts: int) -> None:
    """Dosages made of every fortieth variant of regenie's example, in steps that a VCF's five digits and PLINK hold exactly."""
    prefix = DATA / "regenie_example" / "example"
    packed, people = read_bed(prefix)
    packed = packed[:960:40]
    codes = np.stack([packed[:, s // 4] >> 2 * (s % 4) & 3 for s in range(people)], axis=1).astype(float)
    variant, sample = np.indices(codes.shape)
    dosages = np.clip(codes + ((7 * sample + 3 * variant) % 11 - 5) / 32, 0, 2)
    dosages[(codes == 3) | ((5 * sample + variant) % 53 == 0)] = np.nan
    frame = pl.DataFrame({"variant_id": [str(40 * i + 1) for i in range(24)], "base_pair_location": range(24)})
    frame = frame.with_columns(chromosome=pl.lit("1"), ref=pl.lit("A"), alt=pl.lit("C"))
    ids = [line.split()[1] for line in prefix.with_suffix(".fam").read_text().splitlines()]
    columns = [read_columns(prefix.with_name(name)) for name in ("phenotype.txt", "covariates.txt")]
    sheet = pl.DataFrame({"sample_id": columns[0]["IID"].tolist()} | {name: floats(columns[0][name]) for name in ("Y1",)})
    sheet = sheet.with_columns(pl.Series(name, floats(columns[1][name])) for name in ("V1", "V2", "V3"))
    stage = LinearGwas.model_validate({"traits": "Y1", "covariates": ("V1", "V2", "V3"), "coding": coding})
    whole = Part(frame, {"alt_dosages": dosages.astype(np.float32)})
    bounds = [24 * i // parts for i in range(parts + 1)]
    cut = [Part(frame[a:b], {"alt_dosages": whole.arrays["alt_dosages"][a:b]}) for a, b in pairwise(bounds)]
    found = run_parts(stage, {"genotypes": cut, "samples": [Part(sheet)]}, axes={"alt_dosages": pl.DataFrame({"sample_id": ids})})
    assert_rows(concat_parts(found[""]).frame, DOSAGES[coding])


def kinds(found: Found) -> dict[str, set[str | None]]:
    rows = found.frame.with_columns(kind=chromosome_kind()).group_by("kind").agg(pl.col("reason").unique())
    return {kind: set(reasons) for kind, reasons in rows.iter_rows()}


def test_linear_gwas__without_any_sex_says_so_on_x() -> None:
    found = small(small_cohort())
    assert kinds(found)["x"] == {"no sex is known for the people, which X and Y need"}
    assert kinds(found)["mt"] == {None}
    assert found.frame.filter(chromosome="X").select(NUMBERS).null_count().row(0) == (14,) * 5


def test_linear_gwas__takes_sex_from_the_sheet_by_name_and_leaves_out_who_has_none() -> None:
    sex = [1 + i % 2 if i != 8 else None for i in range(41)]
    sheet = small_cohort().people.with_columns(gender=pl.Series(sex, dtype=pl.Int64)).join(small_sheet(), on="sample_id", how="right")
    by_name, by_table = small(small_cohort(), sheet, sex="gender"), small(with_sex(sex))
    assert by_name.frame.equals(by_table.frame)
    assert by_name.counts == by_table.counts
    assert by_name.counts.items() >= {"people_height": 39, "people_of_unknown_sex": 1}.items()
    everyone = small(with_sex())
    x = pl.col("chromosome") == "X"
    assert (everyone.frame.filter(x)["n"] - by_table.frame.filter(x)["n"]).to_list()[:2] == [1, 1]
    assert everyone.frame.filter(~x).equals(by_table.frame.filter(~x))


def test_linear_gwas__takes_sex_for_a_covariate_on_x_once() -> None:
    cohort, sheet = (
        with_sex(),
        small_cohort().people.with_columns(male=pl.int_range(41) % 2).join(small_sheet(), on="sample_id", how="right"),
    )
    given, added = small(cohort, sheet, covariates=("age", "male")).frame, small(cohort, sheet).frame
    x = pl.col("chromosome") == "X"
    for name in NUMBERS:
        np.testing.assert_allclose(given.filter(x)[name], added.filter(x)[name], rtol=1e-9)
    assert not np.allclose(given.filter(~x)["beta"].head(9), added.filter(~x)["beta"].head(9))


def test_linear_gwas__of_one_sex_alone_needs_no_covariate_for_it_and_has_no_y() -> None:
    cohort = with_sex([2] * 41)
    frame = cohort.rows.frame.with_columns(pl.col("chromosome").replace({"MT": "Y"}))
    found = small(Cohort(cohort.rows.replaced(frame=frame), cohort.people))
    assert kinds(found)["x"] == {None}
    (reason,) = kinds(found)["y"]
    assert str(reason).startswith("on chromosome Y: ")


def test_linear_gwas__refuses_a_sex_that_is_none() -> None:
    message = r"the sex of 'p1' is 3; it must be 1 \(male\), 2 \(female\), 0 or null \(unknown\)"
    with pytest.raises(DataError, match=f"stage tested.sex: {message}"):
        small(small_cohort(), small_sheet().with_columns(gender=pl.lit(3)), sex="gender")
    with pytest.raises(DataError, match="stage tested: the sex of 'p0' is 4"):
        small(with_sex([4] * 41))


def test_linear_gwas__takes_0_for_an_unknown_sex() -> None:
    unknown = [1 + i % 2 if i != 8 else None for i in range(41)]
    zero, null = small(with_sex([sex or 0 for sex in unknown])), small(with_sex(unknown))
    assert zero.frame.equals(null.frame)
    assert zero.counts == null.counts


def test_linear_gwas__refuses_a_sex_that_is_no_column() -> None:
    tables: dict[str, pl.DataFrame | Part] = {"genotypes": small_cohort().rows, "samples": small_sheet()}
    stage = LinearGwas.model_validate({"traits": "height", "sex": "gender"})
    with pytest.raises(StageError, match="the table has no column 'gender'"):
        plan_stage(stage, tables, {"calls": small_cohort().people})


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("given", [{}, {"coding": "recessive"}])
def test_linear_gwas__max_p_keeps_the_rows_of_the_whole_scan_that_reach_it(parts: int, given: dict[str, Any]) -> None:
    data: dict[str, Cohort | pl.DataFrame] = {"genotypes": with_sex(), "samples": small_sheet()}
    traits = {"traits": ("height", "score"), "covariates": ("age",), **given}
    whole = run(LinearGwas.model_validate(traits), data)[""].frame
    for max_p in (0.2, 0.01, 0.0):
        found = run(LinearGwas.model_validate({**traits, "max_p": max_p}), data, parts)[""]
        assert found.frame.equals(whole.filter(pl.col("p_value") <= max_p))
        for trait in ("height", "score"):
            rows = whole.filter(trait=trait)
            assert found.counts[f"tested_{trait}"] == rows["p_value"].count()
            assert found.counts[f"kept_{trait}"] == (rows["p_value"] <= max_p).sum()
