"""The image job as a user writes it by hand: Pillow, scipy.ndimage, Flax and Optax, with the same nets, rounds and batches.

    python benchmarks/peers/images_flax.py FOLDER OUT [ROUNDS]

Splits are drawn anew, so accuracies differ from the job's by chance.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import polars as pl
from flax import linen as nn
from PIL import Image, ImageOps
from scipy import ndimage

Array = Any


class Net(nn.Module):
    """Convolutions with pooling, and a dense layer with dropout."""

    convolutions: Sequence[tuple[int, int]]
    width: int
    classes: int

    @nn.compact
    def __call__(self, images: Array, *, train: bool) -> Array:
        """Logits [rows, classes]."""
        for filters, pool in self.convolutions:
            images = nn.relu(nn.Conv(filters, (3, 3))(images))
            images = nn.max_pool(images, (pool, pool), (pool, pool)) if pool > 1 else images
        hidden = nn.Dropout(0.1, deterministic=not train)(nn.relu(nn.Dense(self.width)(images.reshape(len(images), -1))))
        return nn.Dense(self.classes)(hidden)


def decoded(path: Path, mode: str, side: int) -> Array:
    """An image, padded to a square."""
    return np.asarray(ImageOps.pad(Image.open(path).convert(mode), (side, side), Image.Resampling.BILINEAR), np.float32)


def changed(image: Array, rng: np.random.Generator, how: dict[str, float]) -> Array:
    """An image turned, shifted, mirrored, and brighter or darker."""
    angle = np.deg2rad(rng.uniform(-how["degrees"], how["degrees"]))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle, shift = (np.array(image.shape[:2]) - 1) / 2, rng.uniform(-0.1, 0.1, 2) * image.shape[:2]
    offset = middle - turn @ (middle + shift)
    moved = [ndimage.affine_transform(one, turn, offset, order=1, mode="nearest") for one in np.moveaxis(image, 2, 0)]
    mirrored = np.stack(moved, axis=2)[:, :: -1 if how["mirror"] and rng.random() < 0.5 else 1]
    return mirrored + rng.uniform(-how["brightness"], how["brightness"])


def learn(images: Array, answers: Sequence[str], net: Callable[[int], Net], batch: int, rounds: int, how: dict[str, float]) -> pl.DataFrame:
    """The probability of every class, for every image."""
    names, truth = np.unique(answers, return_inverse=True)
    rng, model = np.random.default_rng(1), net(len(names))
    split = rng.choice(["train", "validation", "test"], len(images), p=[0.6, 0.1, 0.3])
    train = np.flatnonzero(split == "train")
    images = (images - images[train].mean(axis=(0, 1, 2))) / images[train].std(axis=(0, 1, 2))
    parameters = jax.jit(partial(model.init, train=False))(jax.random.key(1), images[:1])
    steps = rounds * (len(train) // batch)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(0.003, steps)))
    state = jax.jit(optimizer.init)(parameters)

    @jax.jit
    def step(parameters: Any, state: Any, seen: Array, labels: Array, key: Array) -> Any:
        """Parameters and state after a batch."""

        def loss(parameters: Any) -> Array:
            logits = model.apply(parameters, seen, train=True, rngs={"dropout": key})
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        updates, after = optimizer.update(jax.grad(loss)(parameters), state, parameters)
        return optax.apply_updates(parameters, updates), after

    predict = jax.jit(partial(model.apply, train=False))
    watched = np.flatnonzero(split == "validation")
    for number in range(rounds):
        order = rng.permutation(train)
        for start in range(0, len(order) - batch + 1, batch):
            rows = order[start : start + batch]
            seen = np.stack([changed(image, rng, how) for image in images[rows]]).astype(np.float32)
            parameters, state = step(parameters, state, seen, truth[rows], jax.random.key(number * 10_000 + start))
        optax.softmax_cross_entropy_with_integer_labels(predict(parameters, images[watched]), truth[watched]).mean().block_until_ready()
    chances = np.asarray(nn.softmax(predict(parameters, images)))
    right = (chances.argmax(axis=1) == truth)[split == "test"].mean()
    print(f"{len(images):,} images of {len(names)} classes: test accuracy {right:.3f}")
    return pl.DataFrame(
        {"split": split, "answer": np.asarray(answers), **{f"prediction_{name}": chances[:, at] for at, name in enumerate(names)}}
    )


def main() -> None:
    """Both sets, as the job has them."""
    folder, out, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 40
    digits = sorted((folder / "digits").glob("*/*.png"))
    with (folder / "shapes.csv").open(encoding="utf-8") as file:
        answers = {row["image"]: row["shape"] for row in csv.DictReader(file)}
    shapes = [folder / "shapes" / name for name in answers]
    with ThreadPoolExecutor() as pool:
        grey = np.stack([*pool.map(partial(decoded, mode="L", side=8), digits)])[..., None]
        colour = np.stack([*pool.map(partial(decoded, mode="RGB", side=24), shapes)])
    out.mkdir(parents=True, exist_ok=True)
    still = {"degrees": 10, "mirror": 0, "brightness": 0.0}
    read = learn(grey, [path.parent.name for path in digits], partial(Net, ((16, 1), (32, 2)), 64), 32, rounds, still)
    read.write_parquet(out / "digits.parquet")
    moving = {"degrees": 20, "mirror": 1, "brightness": 0.3}
    seen = learn(colour, [*answers.values()], partial(Net, ((12, 2), (24, 2), (24, 2)), 32), 16, rounds, moving)
    seen.write_parquet(out / "shapes.parquet")


if __name__ == "__main__":
    main()
