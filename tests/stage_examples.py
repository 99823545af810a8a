"""The examples of every stage of ours, where the stage's own tests state them: EXAMPLES in tests/stages/GROUP/test_STAGE.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec

from pipeline.registry import STAGES
from pipeline.testing.examples import StageExample

OURS = sorted(name for name, module in STAGES.modules.items() if module.startswith(f"{STAGES.package}."))


def module_of_tests(module: str) -> str:
    """The module of a stage's tests, from the stage's own."""
    folder, _, name = module.replace(STAGES.package, "tests.stages", 1).rpartition(".")
    return f"{folder}.test_{name}"


def examples_of(module: str) -> Sequence[StageExample]:
    """What the tests of the stage in this module state; nothing where they are not written yet."""
    tests = module_of_tests(module)
    return getattr(import_module(tests), "EXAMPLES", ()) if find_spec(tests) else ()


def without_examples(modules: Iterable[str]) -> list[str]:
    """For each stage whose tests state no example, by module, the file to write and what to put there."""
    lacking = [module for module in modules if not examples_of(module)]
    what = 'EXAMPLES = [StageExample(THE_STAGE(...), {"rows": A_SMALL_FRAME})]'
    return [
        f"{module}: its tests, {module_of_tests(module).replace('.', '/')}.py, must state {what}; see docs/extending.md"
        for module in lacking
    ]


EXAMPLES = [example for name in OURS for example in examples_of(STAGES.modules[name])]
IDS = [f"{example.stage.name}-{number}" for number, example in enumerate(EXAMPLES)]
