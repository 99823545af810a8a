"""Every stage is shown at work: by the example in its docstring, and by those of its tests, in any parts, on workers and for cuDF."""

from __future__ import annotations

import ast
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from pipeline.registry import STAGES, stage_class
from pipeline.tables.told import TellsNeeds
from pipeline.testing.examples import StageExample, check_documented, check_parts, check_translation
from pipeline.testing.needs import check_needs
from tests.stage_examples import EXAMPLES, IDS, OURS, module_of_tests, without_examples

ROOT = Path(__file__).parents[2]


def test_every_stage__has_tests_that_state_an_example() -> None:
    if lacking := without_examples(STAGES.modules[name] for name in OURS):
        pytest.fail("\n".join(lacking), pytrace=False)


def test_a_stage_without_an_example__is_told_which_file_to_write() -> None:
    (told,) = without_examples(["pipeline.stages.relational.a_new_stage"])
    assert told.startswith("pipeline.stages.relational.a_new_stage: its tests, tests/stages/relational/test_a_new_stage.py, must state EXA")


@pytest.mark.parametrize("name", OURS)
def test_the_example_of_a_docstring__makes_the_stage(name: str) -> None:
    assert isinstance(check_documented(stage_class(name)), stage_class(name))


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_an_example__is_the_same_for_any_parts(example: StageExample) -> None:
    check_parts(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_an_example__is_one_that_cudf_takes(example: StageExample) -> None:
    check_translation(example)


@pytest.mark.parametrize("example", [one for one in EXAMPLES if isinstance(one.stage, TellsNeeds)], ids=lambda example: example.stage.name)
def test_an_example__is_the_same_of_the_columns_that_the_stage_needs(example: StageExample) -> None:
    check_needs(example)


distributions = cache(packages_distributions)  # reads every installed package's list of files

FILES = [ROOT / f"{module_of_tests(STAGES.modules[name]).replace('.', '/')}.py" for name in OURS]


@pytest.mark.parametrize("path", [path for path in FILES if path.exists()], ids=lambda path: path.stem)
def test_where_examples_stand__only_what_every_environment_has_is_imported(path: Path) -> None:
    """The contract and the GPU tests read the examples where scikit-learn and other oracles are not installed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = {"pytest", "pandas"}  # pandas by cuDF
    extras = about["optional-dependencies"]
    dev = {requirement.split("==")[0] for requirement in (*extras["dev"], *extras["classical"])}
    known = distributions()
    for top in sorted({module.split(".")[0] for module in imported} - {"pipeline", "tests", *sys.stdlib_module_names}):
        only = set(known.get(top, ())) & dev - brought
        assert not only, f"{path}: import {top} inside the tests that want it: {only} is not installed where its EXAMPLES are read too"
