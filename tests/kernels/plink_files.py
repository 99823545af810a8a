"""What the kernels' tests read of PLINK's files, with NumPy alone: no code of the pipeline but the packing's definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
REFERENCE = DATA / "reference"

needs_data = pytest.mark.skipif(not REFERENCE.is_dir(), reason=f"the shared reference data is not at {DATA}")


def read_bed(prefix: Path) -> tuple[NDArray[np.uint8], int]:
    """Calls of a .bed as ALT (A1) counts, packed as the kernels want them, and the number of samples."""
    n_samples = len(prefix.with_suffix(".fam").read_text().splitlines())
    raw = np.frombuffer(prefix.with_suffix(".bed").read_bytes(), np.uint8)[3:].reshape(-1, -(-n_samples // 4))
    # A bed's 00, 01, 10, 11 are two copies of A1, missing, one, none.
    codes = np.array([2, 3, 1, 0], np.uint8)[raw[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3]
    codes = codes.reshape(len(raw), -1)
    codes[:, n_samples:] = 0
    shifted = codes.reshape(len(raw), -1, 4) << np.array([0, 2, 4, 6], np.uint8)
    return np.bitwise_or.reduce(shifted, axis=2), n_samples


def chromosomes(prefix: Path) -> NDArray[np.str_]:
    return np.array([line.split()[0] for line in prefix.with_suffix(".bim").read_text().splitlines()])


def read_columns(path: Path) -> dict[str, NDArray[np.str_]]:
    """A printed table by its header: columns of text."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return dict(zip((name.lstrip("#") for name in lines[0]), np.array(lines[1:]).T, strict=True))


def floats(texts: NDArray[np.str_]) -> NDArray[np.float64]:
    return np.array([np.nan if text == "NA" else float(text) for text in texts])


def half_digit(texts: NDArray[np.str_]) -> NDArray[np.float64]:
    """Half a unit of the last of six significant digits: what rounding in print may have moved a number by."""
    values = np.abs(floats(texts))
    exponents: NDArray[np.float64] = np.floor(np.log10(np.where(values > 0, values, 1.0)))
    return 0.5 * np.power(10.0, exponents - 5)


def assert_printed(ours: Any, texts: NDArray[np.str_], relative: float) -> None:
    """Ours equal the printed numbers within `relative`, or within the rounding of their printed digits and a tenth of `relative`."""
    printed = floats(texts)
    allowed = np.maximum(relative * np.abs(printed), half_digit(texts) + relative / 10 * np.abs(printed))
    off = np.abs(np.asarray(ours) - printed) / allowed
    worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    assert off[worst] <= 1, f"row {worst}: {np.asarray(ours)[worst]!r} against {texts[worst]}"
