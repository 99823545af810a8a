"""Makes the image job's inputs: scikit-learn's written digits as PNG in folders, and generated shapes as JPEG with a table of answers.

    python data/make_images.py --digits 400 --shapes 240 --out DIR [--seed 20261123]

Shapes are a disc, a square, a triangle or a cross of a bright colour on a dark one, of any place, size and turn, with noise; an image has
24 to 40 pixels a side. data/README.md says more.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

SHAPES = ("cross", "disc", "square", "triangle")
SMALLEST, LARGEST = 24, 40  # pixels of an image's side
DARK, BRIGHT = (0, 110), (130, 255)  # what the channels of the ground, and of a shape, are between
NOISE = 12  # standard deviation
QUALITY = 80  # of JPEG


def inside(shape: str, right: npt.NDArray[np.float64], down: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which places, in units of the shape's size around its middle, lie in a shape."""
    if shape == "disc":
        found = right**2 + down**2 < 1
    elif shape == "square":
        found = np.maximum(abs(right), abs(down)) < 0.85
    elif shape == "triangle":
        found = (down < 0.7) & (down > 1.9 * abs(right) - 1.0)
    else:
        found = (np.minimum(abs(right), abs(down)) < 0.3) & (np.maximum(abs(right), abs(down)) < 1)
    return np.asarray(found)


def draw(shape: str, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """An image of a shape, uint8 [height, width, 3]."""
    height, width = (int(size) for size in rng.integers(SMALLEST, LARGEST + 1, 2))
    size = rng.uniform(0.3, 0.42) * min(height, width)
    middle = [rng.uniform(1.05 * size, length - 1.05 * size) for length in (height, width)]
    turn = np.deg2rad(rng.uniform(-20, 20))
    down, right = np.meshgrid(*(np.arange(length) + 0.5 - at for length, at in zip((height, width), middle, strict=True)), indexing="ij")
    down, right = (np.cos(turn) * down + np.sin(turn) * right) / size, (np.cos(turn) * right - np.sin(turn) * down) / size
    ground, colour = rng.uniform(*DARK, 3), rng.uniform(*BRIGHT, 3)
    light = rng.uniform(-30, 30) * np.linspace(-1, 1, width)  # from one side to the other
    pixels = np.where(inside(shape, right, down)[:, :, None], colour, ground) + light[:, None] + rng.normal(0, NOISE, (height, width, 3))
    return np.asarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


def write_digits(out: Path, count: int) -> None:
    """Write DIGIT/NUMBER.png of the first so many of scikit-learn's digits; ValueError for more than there are."""
    from PIL import Image
    from sklearn.datasets import load_digits

    found = load_digits()
    if not 1 <= count <= len(found.target):
        raise ValueError(f"digits={count}: there are {len(found.target):,} of them; 1 at least")
    for number, (pixels, digit) in enumerate(zip(found.images[:count], found.target[:count], strict=True)):
        folder = out / str(digit)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint(pixels * 255 / 16).astype(np.uint8)).save(folder / f"{number:04d}.png", optimize=True)


def write_shapes(out: Path, count: int, seed: int) -> None:
    """Write NUMBER.jpg of so many shapes into a folder, and beside it shapes.csv: `image`, `shape`."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    out.mkdir(parents=True, exist_ok=True)
    lines = ["image,shape"]
    for number in range(count):
        shape = SHAPES[rng.integers(len(SHAPES))]
        Image.fromarray(draw(shape, rng)).save(out / f"{number:04d}.jpg", quality=QUALITY, optimize=True)
        lines.append(f"{number:04d}.jpg,{shape}")
    (out.parent / "shapes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--digits", type=int, default=400, help="how many of scikit-learn's digits")
    parser.add_argument("--shapes", type=int, default=240, help="how many generated shapes")
    parser.add_argument("--out", type=Path, required=True, help="folder to write digits, shapes and shapes.csv to")
    parser.add_argument("--seed", type=int, default=20261123)
    given = parser.parse_args()
    write_digits(given.out / "digits", given.digits)
    write_shapes(given.out / "shapes", given.shapes, given.seed)
    files = [path for path in given.out.rglob("*") if path.is_file()]
    print(f"{given.out}: {len(files):,} files, {sum(path.stat().st_size for path in files):,} bytes")


if __name__ == "__main__":
    main()
