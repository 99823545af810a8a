"""The example in a stage's docstring is YAML that makes the stage."""

from __future__ import annotations

import inspect

import pytest
from ruamel.yaml import YAML

from pipeline.registry import STAGES, stage_class

OURS = sorted(name for name, module in STAGES.modules.items() if ".relational." in module or ".features." in module)


@pytest.mark.parametrize("name", OURS)
def test_example__makes_the_stage(name: str) -> None:
    stage = stage_class(name)
    _, found, text = inspect.cleandoc(stage.__doc__ or "").partition("Example: ")
    assert found
    given = YAML(typ="safe").load(text)
    assert given.pop("use") == name
    assert given.pop("from")
    assert given.pop("as")
    assert isinstance(stage.model_validate(given), stage)
