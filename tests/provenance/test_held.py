"""Which artefacts of a results place hold people who have withdrawn: as a biobank would go about it, with plain jobs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import InputError, PlaceError
from pipeline.formats._plink.bed_files import write_plink
from pipeline.kernels.genotypes import pack
from pipeline.provenance.held import Artefact, Of, after, held
from pipeline.provenance.named import named_in_file, people_in
from tests.small import inside, run_main

PEOPLE, VARIANTS = 40, 12
IDS = [f"p{number:03d}" for number in range(PEOPLE)]
LEAVERS = IDS[3:6]
SCAN = {"traits": ["y"], "covariates": ["age"]}
COHORT = {"calls": {"format": "plink", "path": "cohort.bed"}, "sheet": {"format": "csv", "path": "sheet.csv"}}
WITHDRAWN = {"withdrawn": {"format": "csv", "path": "withdrawn.csv"}}


def run(
    name: str, inputs: Mapping[str, Any], stages: Sequence[Mapping[str, Any]], outputs: Mapping[str, Any], results: str = "results"
) -> None:
    """A job in the folder that the test is in."""
    job = {"job": name, "results": results, "inputs": inputs, "stages": stages, "outputs": outputs}
    Path(f"{name}.json").write_text(json.dumps(job))
    done = run_main(f"{name}.json", "--quiet")
    assert done.code == 0, done.err


def scan(people: str, **more: Any) -> dict[str, Any]:
    return {"use": "linear_gwas", "from": {"genotypes": "calls", "samples": people}, **SCAN, **more}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cohort, whom of it have withdrawn, a scan with them, and one without them."""
    folder, random = tmp_path_factory.mktemp("cohort"), np.random.default_rng(5)
    variants = pl.DataFrame(
        {
            "chromosome": ["1"] * VARIANTS,
            "base_pair_location": range(1, VARIANTS + 1),
            "variant_id": [f"v{number}" for number in range(VARIANTS)],
            "ref": ["A"] * VARIANTS,
            "alt": ["G"] * VARIANTS,
        }
    )
    calls = random.choice([0, 1, 2], (VARIANTS, PEOPLE)).astype(np.uint8)
    write_plink(folder / "cohort", variants, pl.DataFrame({"sample_id": IDS, "family_id": IDS}), [pack(calls)])
    pl.DataFrame({"sample_id": IDS, "y": random.normal(size=PEOPLE).round(3), "age": range(PEOPLE)}).write_csv(folder / "sheet.csv")
    (folder / "withdrawn.csv").write_text("sample_id\n" + "".join(f"{name}\n" for name in LEAVERS))
    with inside(folder):
        both = {"gwas": {"from": "gwas"}, "nulls": {"from": "gwas.calibration"}}
        outputs = {**both, "people": {"from": "sheet", "format": "csv"}}
        run("first", COHORT, [scan("sheet", **{"as": "gwas", "calibrate": 2})], outputs)
        left = {"use": "join", "from": {"left": "sheet", "right": "withdrawn"}, "as": "left", "on": "sample_id", "how": "anti"}
        outputs = {"again": {"from": "gwas"}, "who": {"from": "left"}}
        run("second", COHORT | WITHDRAWN, [left, scan("left", **{"as": "gwas"})], outputs)
    return folder


def by_name(found: Sequence[Artefact], run_number: int) -> dict[str, Artefact]:
    """Artefacts of one run, by their names in it."""
    runs = sorted({"/".join(one.path.split("/")[:2]) for one in found if one.path.startswith("runs/")})
    return {one.path.removeprefix(f"{runs[run_number]}/"): one for one in found if one.path.startswith(runs[run_number])}


def test_artefacts__name_people_or_were_computed_with_them_until_a_join_takes_them_away(cohort: Path) -> None:
    with inside(cohort):
        found = held("results", "withdrawn.csv")
    first, second = by_name(found, 0), by_name(found, 1)
    assert (first["people"].named, first["people"].computed) == (3, 3)
    assert (first["gwas"].named, first["gwas"].computed, first["gwas"].through) == (0, 3, ("calls", "sheet"))
    assert first["nulls"].computed == 3  # a stage's second table
    assert first["report.html"].computed == 3
    assert not second["again"].holds
    assert not second["who"].holds
    assert str(first["gwas"]).endswith("gwas: computed with 3, by calls, sheet")


def test_moments__of_an_earlier_run_hold_them_and_what_is_left_of_these_does_not(cohort: Path, tmp_path: Path) -> None:
    for file in ("cohort.bed", "cohort.bim", "cohort.fam", "sheet.csv", "withdrawn.csv"):
        (tmp_path / file).write_bytes((cohort / file).read_bytes())
    leavers = {"use": "join", "from": {"left": "sheet", "right": "withdrawn"}, "as": "leavers", "on": ["sample_id"], "how": "semi"}
    moments = {"use": "gwas_moments", **SCAN}
    leaving = {**moments, "from": {"genotypes": "calls", "samples": "leavers"}, "as": "leaving", "cohort": "leavers"}
    pooled = {"use": "pool_moments", "from": {"moments": "kept", "withdrawn": "leaving"}, "as": "rest", "cohort": "rest"}
    with inside(tmp_path):
        all_of_them = {**moments, "from": {"genotypes": "calls", "samples": "sheet"}, "as": "moments", "cohort": "all"}
        run("moments", COHORT, [all_of_them], {"moments": {"from": "moments"}}, "before")
        (kept,) = Path("before/current/moments").resolve().glob("*.parquet")
        inputs = COHORT | WITHDRAWN | {"kept": {"format": "parquet", "path": str(kept)}}
        tested = {"use": "gwas_from_moments", "from": "rest", "as": "gwas"}
        run("forgotten", inputs, [leavers, leaving, pooled, tested], {"rest": {"from": "rest"}, "gwas": {"from": "gwas"}})
        run("kept", {"kept": inputs["kept"]}, [{**tested, "from": "kept"}], {"gwas": {"from": "gwas"}})
        found, before = held("results", "withdrawn.csv"), held("before", "withdrawn.csv")
    assert [(one.named, one.computed) for one in before if one.path.endswith("/moments")] == [(0, 3)]
    assert not by_name(found, 0)["rest"].holds
    assert not by_name(found, 0)["gwas"].holds
    assert by_name(found, 1)["gwas"].computed == 3  # by what it reads, which names nobody


def test_the_command__lists_what_holds_them_and_says_so_by_its_code(cohort: Path) -> None:
    with inside(cohort):
        done = run_main("--holds", "withdrawn.csv", "results")
        assert done.code == 1
        assert "people: names 3; computed with 3, by sheet" in done.out
        (cohort / "nobody.txt").write_text("x999\n")
        done = run_main("--holds", "nobody.txt", "results", "--json")
        assert (done.code, json.loads(done.out)["artefacts"]) == (0, [])


def test_an_input_that_is_gone__leaves_it_unknown(cohort: Path, tmp_path: Path) -> None:
    with inside(tmp_path):
        Path("x.csv").write_text("sample_id,y\np003,1\n")
        run(
            "gone",
            {"x": {"format": "csv", "path": "x.csv"}},
            [{"use": "filter", "from": "x", "as": "y", "where": "y > 0"}],
            {"z": {"from": "y"}},
        )
        Path("x.csv").unlink()
        Path("results/checkpoints").mkdir(exist_ok=True)
        Path("results/checkpoints/used.json").write_text("{}")  # beside checkpoints, and none
        assert "checkpoints/used.json" not in {one.path for one in held("results", cohort / "withdrawn.csv") if one.unknown}
    (output,) = [one for one in held(str(tmp_path / "results"), cohort / "withdrawn.csv") if one.path.endswith("/z")]
    assert output.named == 1
    assert "input x cannot be read" in output.unknown


def test_after__is_too_much_rather_than_too_little() -> None:
    some, other = Of({"x": frozenset({"a", "b"})}), Of({"y": frozenset({"b", "c"})})
    join = {"use": "join", "on": "sample_id", "how": "anti"}
    assert after(join, {"left": some, "right": other}, ["left", "right"]).people == {"a"}
    for wider in ({"where": "z > 1"}, {"on": ["sample_id", "visit"]}, {"on": "family"}, {"how": "full"}):
        assert after({**join, **wider}, {"left": some, "right": other}, ["left", "right"]).people == {"a", "b", "c"}
    assert after(join, {"left": some, "right": Of(unknown="gone")}, ["left", "right"]).people == {"a", "b"}
    scanned = after(
        {"use": "linear_gwas"},
        {"genotypes": some, "samples": other, "predictions": Of({"p": frozenset({"d"})})},
        ["genotypes", "samples", "predictions"],
    )
    assert scanned.people == {"b", "d"}


@pytest.mark.parametrize(
    ("text", "ids"),
    [("sample_id,date\na,2026\nb,2026\n", "ab"), ("a\nb\n", "ab"), ("#FID IID\n1 a\n1 b\n", "ab"), ('"a"\n\n"b"\n', "ab")],
)
def test_people__are_read_as_biobanks_send_them(text: str, ids: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(text)
    assert people_in(tmp_path / "people.csv") == {*ids}


def test_what_cannot_be_read__is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("sample_id\n")
    with pytest.raises(InputError, match="there is nobody in it"):
        people_in(tmp_path / "empty.csv")
    with pytest.raises(InputError, match="No such file"):
        people_in(tmp_path / "none.csv")
    (tmp_path / "one.csv").write_text("a\n")
    with pytest.raises(PlaceError, match="no such folder"):
        held(str(tmp_path / "nowhere"), tmp_path / "one.csv")


def test_a_name__is_found_as_a_word_alone_packed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("p003_2 xp003 p0031\n")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'{"who": ["p003", "p9"]}' * 10))
    pl.DataFrame({"rows": [["p003"], ["p4"]], "sample_id": [7, 8]}).write_parquet(tmp_path / "c.parquet")
    ids = frozenset({"p003", "8"})
    assert named_in_file(tmp_path / "a.txt", ids) == set()
    assert named_in_file(tmp_path / "b.json.gz", ids) == {"p003"}
    assert named_in_file(tmp_path / "c.parquet", ids) == ids
