"""Alignments made by chance, as align_reads gives them, for tests of what reads these."""

from __future__ import annotations

import numpy as np
import polars as pl

from pipeline.genome.columns import dtypes_of
from pipeline.stages.genomics._mapping import COLUMNS
from pipeline.stages.genomics._reference import Reference
from tests.stages.genomics.hard_reads import REFERENCE

CIGARS = ("60M", "10S50M", "20M3D40M", "25M2I33M", "5H30M10N25M5S", "20=1X39=", "12M300N48M")


def alignments(count: int, seed: int = 9) -> pl.DataFrame:
    """Alignments of two samples on the shipped reference: clipped, spliced, with gaps, some that count nowhere."""
    rng = np.random.default_rng(seed)
    rows = list[tuple[object, ...]]()
    for at in range(count):
        chromosome, last = (("1", 59_600), ("2", 19_600))[at % 3 == 0]
        place = int(rng.integers(1, 3_000)) if at % 4 else int(rng.integers(1, last))
        flag = int(rng.choice([0, 16, 256, 512, 1024, 2048, 0, 0, 16, 16]))
        mate = (None, None, 0, "".join(rng.choice([*"ACGTN"], 60)), "".join(map(chr, rng.integers(33, 74, 60))))
        known = ("ab"[at % 2], f"r{at}")
        if at % 17 == 0:
            rows.append((*known, 4, None, None, 0, None, None, None, *mate))
        else:
            rows.append((*known, flag, chromosome, place, int(rng.integers(0, 61)), CIGARS[at % len(CIGARS)], "+", 0, *mate))
    return pl.DataFrame(rows, schema=dtypes_of(COLUMNS), orient="row")


def on_reference(chromosome: str, start: int, length: int) -> str:
    """Bases of the shipped reference, from `start` on, counted from 0."""
    return Reference.at(str(REFERENCE)).sequences()[chromosome][start : start + length].decode()
