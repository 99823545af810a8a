"""What tests read of regenie's files (../shared/data/reference/regenie: regenie 4.1.2, with the commands in make_regenie.sh)."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.kernels.plink_files import REFERENCE

REGENIE = REFERENCE / "regenie"


def read_loco(path: Path) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
    """The people of a .loco.gz as FID_IID, and by chromosome their predictions."""
    header, *rows = (line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines())
    return header[1:], {row[0]: np.array(row[1:], float) for row in rows}


def read_fits(path: Path, trait: str) -> tuple[NDArray[np.float64], int]:
    """Of a trait in a step 1 log, a row per h of every number that it prints (R squared, error, ...), and the place of the chosen h."""
    lines = path.read_text().partition(f"({trait}) : \n")[2].splitlines()[:5]
    numbers = [[float(word.split("<")[0].rstrip(",")) for word in line.split() if word[0].isdigit()][1:] for line in lines]
    return np.array(numbers), next(place for place, line in enumerate(lines) if "<- min value" in line)


def read_results(path: Path) -> dict[str, NDArray[np.str_]]:
    """The columns of a .regenie.gz."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    header, *rows = (line.split() for line in lines if not line.startswith("##"))
    return dict(zip(header, np.array(rows).T, strict=True))


def step1_variants() -> list[str]:
    """The variants of HapMap 3 that step 1 was given."""
    return gzip.decompress((REGENIE / "hapmap3" / "step1.snplist.gz").read_bytes()).decode().split()
