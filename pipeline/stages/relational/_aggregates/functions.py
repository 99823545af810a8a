"""All functions by name."""

from __future__ import annotations

from pipeline.stages.relational._aggregates.function import Function
from pipeline.stages.relational._aggregates.listed import LISTED
from pipeline.stages.relational._aggregates.picked import PICKED
from pipeline.stages.relational._aggregates.plain import PLAIN
from pipeline.stages.relational._aggregates.spreads import SPREADS
from pipeline.stages.relational._aggregates.totals import TOTALS

FUNCTIONS: dict[str, Function] = {**TOTALS, **PLAIN, **SPREADS, **PICKED, **LISTED}
