"""What a scan counts of its samples, and what it warns of. Not a stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from pipeline.kernels.cox_design import CoxModels
from pipeline.stages.genomics._sheet import Sheet

MISSING_NUMBER = -9
"""How PLINK writes a missing value."""


class Fitted(Protocol):
    """The sheets of a scan's traits, and their models."""

    sheets: list[Sheet]
    models: list[Any]


def tally(fitted: Fitted) -> dict[str, int]:
    """People used for each trait, how many have -9, and how many of all used people X leaves out because their sex is not known."""
    found = {f"people_{trait}": int(model.used) for model in fitted.models for trait in model.trait_names}
    for sheet, model in zip(fitted.sheets, fitted.models, strict=True):
        found |= {} if isinstance(model, CoxModels) else minus_nines(sheet)  # whose times are signed
    sex = fitted.sheets[0].sex
    unknown = 0 if sex is None else int(((sex == 0) & np.any([sheet.complete for sheet in fitted.sheets], axis=0)).sum())
    return found | ({"people_of_unknown_sex": unknown} if unknown else {})


def minus_nines(sheet: Sheet) -> dict[str, int]:
    """For each trait whose least value is -9 how many of those who are used have it, where several do."""
    used, found = ~np.isnan(sheet.covariates).any(axis=1), dict[str, int]()
    for name, values in zip(sheet.trait_names, sheet.traits[used].T, strict=True):
        number = int((values == MISSING_NUMBER).sum())
        if number > 1 and np.nanmin(values) == MISSING_NUMBER and np.nanmax(values) > MISSING_NUMBER:
            found[f"minus_nine_{name}"] = number
    return found


def told_of_minus_nines(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What a run is warned of them."""
    found = [(key.removeprefix("minus_nine_"), number) for key, number in counts.items() if key.startswith("minus_nine_")]
    return tuple(
        f"{number:,} people have -9 for the trait {name!r}, which is taken as a number, and means missing in PLINK's files. Where it does "
        "here, read these with format: plink_sheet, or name it in null_values."
        for name, number in found
    )
