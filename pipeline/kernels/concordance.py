"""How often those who have an event sooner were told a higher risk: Harrell's C (1996, Stat Med 15:361-387), rows of a study's host."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def concordant_pairs(time: Array, event: Array, risk: Array, entry: Array | None = None) -> tuple[float, int]:
    """Pairs in the right order, those of equal risk counted half, and all pairs that can be compared; n log n steps.

    `time float64[n]` until an event (`event bool[n]`) or until nothing more is known, `risk float64[n]`; a row is there after its `entry`.
    A pair can be compared where one has an event while the other is there, and the other has none by then: an event comes before what ends
    at the same time without one, and two events at one time are no pair.
    """
    from pipeline.kernels.compiled.concordance import count_pairs

    since = np.full(len(time), -np.inf) if entry is None else entry
    rank = np.unique(risk, return_inverse=True)[1].astype(np.int64)
    latest = np.lexsort((event, -time))  # of one time those without an event first
    found = count_pairs(time.astype(np.float64), event.astype(np.bool_), rank, latest, np.argsort(-since, kind="stable"), since)
    return float(found[0]) + float(found[1]) / 2, int(found[2])
