"""What a network is told: its layers and how it learns, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipeline.errors import StageError
from pipeline.stage import ColumnName, need_columns
from pipeline.stages.models._network.convolutions import Augmentation, Convolution, check_convolutions
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._unfolded.column import Unfolded
from pipeline.stages.models._unfolded.image import Image
from pipeline.stages.models._unfolded.text import Ngrams
from pipeline.tables.part import Schema

Width = Annotated[int, Field(ge=1, le=65_536)]


class Parallel(BaseModel):
    """Over how many devices a network is trained at once, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: int = Field(1, ge=1, le=1_024, description="Devices that each take an equal share of every batch; their gradients are summed.")
    model: int = Field(
        1, ge=1, le=1_024, description="Devices that each have an equal share of every hidden layer, of all rows of their share."
    )
    pipeline: int = Field(
        1,
        ge=1,
        le=1_024,
        description="Stages that each have some layers, and `data` x `model` devices; a batch goes through in `accumulate` pieces.",
    )
    asynchronous: int = Field(
        1, ge=1, le=1_024, description="Learners that each take an equal share of every batch, and do not wait for one another's gradients."
    )
    staleness: int = Field(
        0, ge=0, le=10_000, description="asynchronous: steps that a learner may be ahead of the slowest; with 0 all go in step."
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
        return self.data * self.model * self.pipeline * self.asynchronous

    @property
    def shares(self) -> int:
        """In how many shares a batch is cut."""
        return self.data * self.asynchronous

    @property
    def reproducible(self) -> bool:
        """Whether the same rows give the same model: not where learners use what is there."""
        return self.asynchronous == 1 or self.staleness == 0

    def check(self, layers: tuple[int, ...]) -> None:
        """Raise StageError where hidden layers of these widths cannot be shared out, or ways do not go together."""
        if self.asynchronous > 1 and (self.devices > self.asynchronous or self.compress != "none"):
            others = "data, model, pipeline or compress"
            raise StageError(f"asynchronous learners go with none of {others}: leave those out, or it", key="parallel.asynchronous")
        if self.staleness and self.asynchronous == 1:
            raise StageError(f"staleness {self.staleness} is of asynchronous learners: say how many there are", key="parallel.staleness")
        odd = [width for width in layers if width % self.model]
        if self.model > 1 and (odd or not layers):
            what = f"a layer of {odd[0]}" if odd else "layers: there are none"
            raise StageError(f"{self.model} devices cannot have equal shares of {what}", key="parallel.model")
        if self.pipeline > len(layers) + 1:
            raise StageError(f"{self.pipeline} devices, and {len(layers) + 1} layers, the last one too", key="parallel.pipeline")
        if self.workers > 1 and (self.pipeline > 1 or self.asynchronous > 1 or self.devices % self.workers):
            what = f"there are {self.devices} devices in all"
            if self.pipeline > 1 or self.asynchronous > 1:
                what = "layers that follow one another are of one worker" if self.pipeline > 1 else "learners go to all workers"
            raise StageError(f"{what}, which {self.workers} workers cannot share. Give data: {self.workers}, say.", key="parallel.workers")
        if self.compress != "none" and (self.data == 1 or self.devices > self.data):
            raise StageError("gradients are compressed between devices of data, and of nothing else", key="parallel.compress")


class DeepLearning(Supervised):
    """Learns by a network of dense layers."""

    remedy = "Use categorify for it, name it in text or image where it is one, or in exclude."

    text: tuple[ColumnName, ...] = Field((), description="Features that are texts; each becomes the mean of what its n-grams become.")
    ngrams: Ngrams = Field(Ngrams(), description="Of the texts: which n-grams count, and how they are hashed.")
    image: Image | None = Field(None, description="The feature that is an image, which goes through convolutions before the layers.")
    convolutions: tuple[Convolution, ...] = Field(
        (Convolution(filters=16), Convolution(filters=32)),
        min_length=1,
        max_length=100,
        description="What an image goes through, in order.",
    )
    augment: Augmentation | None = Field(None, description="How images are changed while they are learned from; by default not at all.")
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
    arithmetic: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="What layers are computed in while training; parameters and predictions are float32 in any case. Gradients in float16 "
        "are scaled, and a step that it does not hold is skipped.",
    )
    accumulate: int = Field(1, ge=1, le=100_000, description="Pieces that a batch is computed in, one after another: less memory.")
    parallel: Parallel | None = Field(
        None,
        description="Train over several devices of one worker, or of `workers`: GPUs, or shares of a CPU's cores (8 where none are named).",
    )

    @property
    def unfolded(self) -> Mapping[str, Unfolded]:
        """The texts and the image."""
        return {**dict.fromkeys(self.text, self.ngrams), **({self.image.column: self.image} if self.image else {})}

    def check_columns(self, schema: Schema) -> None:
        """Raise StageError where a column that a parameter names is missing."""
        super().check_columns(schema)
        need_columns(schema, self.text, key="text")
        need_columns(schema, [self.image.column] if self.image else [], key="image.column")

    def check_features(self, schema: Schema) -> None:
        """Raise StageError for a feature that cannot be used, and where there is none."""
        features = self.feature_columns(schema)
        for name, unfolded in self.unfolded.items():
            if name not in features:
                text = f"{name!r} is no feature: it is the target, the key or the split, or not among features"
                raise StageError(text, key=unfolded.kind)
        super().check_features(schema)
        for name, unfolded in self.unfolded.items():
            unfolded.check(name, schema.columns[name])
        check_convolutions(self.image, self.convolutions)
        if self.augment and not self.image:
            raise StageError("images are augmented, and there is none. Name the feature in image, or leave augment out.", key="augment")

    @property
    def devices(self) -> int:
        """Devices that it is trained on."""
        return self.parallel.devices if self.parallel else 1

    @property
    def over_workers(self) -> bool:
        """Whether several processes train it."""
        return self.parallel is not None and self.parallel.workers > 1

    @property
    def by_learners(self) -> bool:
        """Whether asynchronous learners train it."""
        return self.parallel is not None and self.parallel.asynchronous > 1

    @property
    def reproducible(self) -> bool:
        """Whether the same rows give the same model again."""
        return self.parallel is None or self.parallel.reproducible

    def check_shares(self) -> None:
        """Raise StageError where a batch, or a layer, cannot be shared out."""
        shares = self.accumulate * (self.parallel.shares if self.parallel else 1)
        if self.batch_size % shares:
            text = f"a batch of {self.batch_size} rows cannot be cut into {shares} equal pieces (accumulate, for each device or learner)"
            raise StageError(text, key="batch_size")
        if self.parallel:
            self.parallel.check(self.layers)
        if self.parallel and self.parallel.compress != "none" and self.arithmetic == "float16":
            raise StageError("gradients of float16 are not compressed. Use bfloat16, or leave compress out.", key="arithmetic")
