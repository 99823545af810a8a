"""What the tests of pooled sums share: three sites with rows of their own, and the tables that leave them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from pipeline.stages.models.site_sums import SiteSums
from pipeline.testing.stages import run_stage

SITES = ("berlin", "oslo", "rome")
SECRETS = {pair: f"{pair[0]} and {pair[1]} share this, or so they say" for pair in combinations(SITES, 2)}


def site_rows(site: str, rows: int = 120) -> pl.DataFrame:
    """Rows of a site: a feature far from 0, a small one, whole numbers, a flag and a target, some values missing."""
    random = np.random.default_rng(SITES.index(site))
    year, small = random.integers(1990, 2026, rows) + random.normal(0, 1e-3, rows), random.normal(SITES.index(site), 1e-4, rows)
    count, flag = random.integers(-5, 40, rows), random.random(rows) < 0.3
    y = 3 + 0.2 * (year - 2000) - 40 * small + 0.05 * count - flag + random.normal(size=rows)
    frame = pl.DataFrame({"year": year, "small": small, "count": count, "flag": flag, "y": y})
    return frame.with_columns(
        small=pl.when(pl.int_range(rows) % 17 == 3).then(float("nan")).otherwise("small"),
        count=pl.when(pl.int_range(rows) % 29 != 5).then("count"),
    )


def shared(site: str) -> dict[str, str]:
    """The secrets of a site, by the other."""
    return {other: secret for pair, secret in SECRETS.items() for other in pair if site in pair and other != site}


def stage_of(site: str, /, **more: Any) -> SiteSums:
    """The stage as the site runs it."""
    given = {
        "site": site, "sites": SITES, "target": "y", "features": ("year", "small", "count", "flag"), "study": "one",
        "secrets": shared(site), **more,
    }  # fmt: skip
    return SiteSums.model_validate(given)


def leaving(site: str, rows: pl.DataFrame | None = None, **more: Any) -> pl.DataFrame:
    """The table that leaves a site."""
    return run_stage(stage_of(site, **more), {"rows": site_rows(site) if rows is None else rows}, 3)[""]


def complete() -> pl.DataFrame:
    """The rows of all sites that have no missing value."""
    return pl.concat([site_rows(site) for site in SITES]).fill_nan(None).drop_nulls()
