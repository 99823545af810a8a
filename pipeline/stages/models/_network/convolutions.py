"""What a network is told of an image: the convolutions that it goes through, and how it is changed while training."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import StageError
from pipeline.stages.models._unfolded.image import Image


class Convolution(BaseModel):
    """One convolution, which keeps the image's size, and what is pooled after it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    filters: int = Field(ge=1, le=65_536, description="Numbers that each pixel becomes.")
    size: int = Field(3, ge=1, le=63, description="Rows and columns of a filter.")
    pool: int = Field(2, ge=1, le=63, description="Rows and columns of pixels of which the greatest stays; 1: all stay.")


class Augmentation(BaseModel):
    """How training changes its images, each anew in every round, by its key, the round and the job's seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mirror: bool = Field(False, description="Every other image is seen left for right.")
    degrees: float = Field(0, ge=0, le=180, description="How far an image is turned about its middle, at most, either way.")
    shift: float = Field(0, ge=0, le=0.5, description="How far it is shifted, at most, as a share of its height and of its width.")
    brightness: float = Field(
        0, ge=0, le=10, description="What is added to all its pixels, at most, either way, in standard deviations of the training pixels."
    )


def check_convolutions(image: Image | None, convolutions: Sequence[Convolution]) -> None:
    """Raise StageError where pooling leaves nothing of an image."""
    if image is None:
        return
    height, width = image.height, image.width
    for number, convolution in enumerate(convolutions, 1):
        height, width = height // convolution.pool, width // convolution.pool
        if not height * width:
            raise StageError(f"nothing is left of the image after {number} of them. Give fewer, or a pool of 1.", key="convolutions")
