"""What a network is told: its layers and how it learns, as a frozen value."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import StageError
from pipeline.stages.models._supervised import Supervised

Width = Annotated[int, Field(ge=1, le=65_536)]


class Parallel(BaseModel):
    """Over how many devices a network is trained at once, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: int = Field(1, ge=1, le=1_024, description="Devices that each take an equal share of every batch; their gradients are summed.")
    model: int = Field(
        1, ge=1, le=1_024, description="Devices that each have an equal share of every hidden layer, of all rows of their share."
    )
    pipeline: int = Field(
        1, ge=1, le=1_024, description="Devices that each have some layers; a batch goes from one to the next in `accumulate` pieces."
    )
    workers: int = Field(
        1,
        ge=1,
        le=1_024,
        description="Dask workers that have equal shares of all these devices, each in a process of its own; goes with data and model.",
    )
    compress: Literal["none", "int8", "top_k"] = Field(
        "none", description="data: send gradients in 8 bits, or the greatest `share` of them; what is left out goes into the next step."
    )
    share: float = Field(0.01, gt=0, le=1, description="top_k: share of the gradients that a device sends.")

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.data * self.model * self.pipeline

    def check(self, layers: tuple[int, ...]) -> None:
        """Raise StageError where hidden layers of these widths cannot be shared out."""
        odd = [width for width in layers if width % self.model]
        if self.model > 1 and (odd or not layers):
            what = f"a layer of {odd[0]}" if odd else "layers: there are none"
            raise StageError(f"{self.model} devices cannot have equal shares of {what}", key="parallel.model")
        if self.pipeline > len(layers) + 1:
            raise StageError(f"{self.pipeline} devices, and {len(layers) + 1} layers, the last one too", key="parallel.pipeline")
        if self.pipeline > 1 and self.pipeline < self.devices:
            raise StageError("pipeline goes with neither data nor model: leave them out, or it", key="parallel.pipeline")
        if self.workers > 1 and (self.pipeline > 1 or self.devices % self.workers):
            what = "layers that follow one another are of one worker" if self.pipeline > 1 else f"there are {self.devices} devices in all"
            raise StageError(f"{what}, which {self.workers} workers cannot share. Give data: {self.workers}, say.", key="parallel.workers")
        if self.compress != "none" and (self.data == 1 or self.devices > self.data):
            raise StageError("gradients are compressed between devices of data, and of nothing else", key="parallel.compress")


class DeepLearning(Supervised):
    """Learns by a network of dense layers."""

    layers: tuple[Width, ...] = Field((128, 64), max_length=100, description="Width of each hidden layer; none makes a linear model.")
    activation: Literal["relu", "gelu", "silu", "tanh"] = Field("relu", description="What follows each hidden layer.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Share of a hidden layer's values that a training step leaves out.")
    embedding: int | None = Field(
        None, ge=1, le=4_096, description="Numbers that a category becomes; by default half of the categories, at most 50."
    )
    batch_size: int = Field(256, ge=1, le=1_000_000, description="Rows of a training step.")
    optimizer: Literal["adamw", "sgd"] = Field("adamw", description="How parameters step.")
    learning_rate: float = Field(0.001, gt=0, le=10, description="Size of a step.")
    schedule: Literal["constant", "cosine"] = Field("constant", description="cosine: the learning rate falls to 0 until the last round.")
    warmup_rounds: int = Field(0, ge=0, description="Rounds in which the learning rate rises from 0.")
    momentum: float = Field(0.9, ge=0, lt=1, description="sgd: share of the step before that goes on.")
    weight_decay: float = Field(0.0001, ge=0, description="How fast weights shrink; biases do not.")
    clip: float | None = Field(1.0, gt=0, description="The longest gradient, over all parameters; a longer one is shortened.")
    arithmetic: Literal["float32", "bfloat16"] = Field(
        "float32", description="What layers are computed in while training; parameters and predictions are float32 in any case."
    )
    accumulate: int = Field(1, ge=1, le=100_000, description="Pieces that a batch is computed in, one after another: less memory.")
    parallel: Parallel | None = Field(
        None,
        description="Train over several devices of one worker, or of `workers`: GPUs, or shares of a CPU's cores (8 where none are named).",
    )

    @property
    def devices(self) -> int:
        """Devices that it is trained on."""
        return self.parallel.devices if self.parallel else 1

    def check_shares(self) -> None:
        """Raise StageError where a batch, or a layer, cannot be shared out."""
        shares = self.accumulate * (self.parallel.data if self.parallel else 1)
        if self.batch_size % shares:
            text = (
                f"a batch of {self.batch_size} rows cannot be cut into {shares} equal pieces (accumulate, for each device of parallel.data)"
            )
            raise StageError(text, key="batch_size")
        if self.parallel:
            self.parallel.check(self.layers)
