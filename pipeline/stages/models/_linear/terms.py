"""What a linear model is told beside what all models are: its family, its penalties and when its solver ends."""

from __future__ import annotations

from typing import ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.errors import StageError
from pipeline.stages.models._supervised import Supervised


class LinearTerms(Supervised):
    """Learns coefficients."""

    suffix = "npz"
    precision: ClassVar[pl.DataType] = pl.Float64()

    family: Literal["normal", "poisson", "gamma"] = Field(
        "normal", description="Of a regression's target: normal (least squares); poisson (counts) or gamma (above 0), with a log link."
    )
    l1: float = Field(0.0, ge=0, description="Penalty on the sum of absolute coefficients, of standardized columns, beside the mean loss.")
    l2: float = Field(0.0, ge=0, description="Penalty on half the sum of their squares, beside the mean loss.")
    tolerance: float = Field(1e-9, gt=0, le=1e-2, description="The solver ends where no slope of the mean loss is steeper.")

    def check_family(self) -> None:
        """Raise StageError where the family is not of the objective."""
        if self.family != "normal" and self.objective != "regression":
            raise StageError(f"{self.family} is a family of regression, and the objective is {self.objective}. Leave it out.", key="family")
