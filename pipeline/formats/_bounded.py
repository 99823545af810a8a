"""Inputs whose files are text, or packed, and the bounds that they are read in."""

from __future__ import annotations

from pydantic import Field

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.format import InputFormat


class BoundedInput(InputFormat):
    """Base of inputs of which no file comes to more than its limits."""

    limits: Bounds = Field(DEFAULTS, description="What a file may come to before it is refused as damaged, or as a bomb.")
