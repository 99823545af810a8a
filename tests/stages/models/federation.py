"""What the tests of pooled sums share: three sites with rows of their own, and the tables that leave them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from distributed.protocol.pickle import dumps

from pipeline.stage import Context, Stage
from pipeline.stages.models.site_sums import SiteSums
from pipeline.tables.session import Session
from pipeline.tables.steps import Step
from pipeline.tables.table import Table
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


class Watching(Session):
    """Tasks at once in this process, all that they are given kept as bytes."""

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def submit(self, function: Callable[..., Any], *arguments: Any, stage: str, on_host: bool = False) -> Any:
        """Run it."""
        self.given.append(dumps((function, arguments)))
        return super().submit(function, *arguments, stage=stage, on_host=on_host)

    def evaluate(self, step: Step) -> Any:
        """Make the part."""
        self.given.append(dumps(step))
        return super().evaluate(step)


def assert_keeps_secrets(stage: Stage, tables: Mapping[str, Table], session: Watching) -> None:
    """Assert that no task of a site's stage is given a secret."""
    outcome = stage.run(tables, Context("sums", 1, session))
    assert outcome.tables[""].futures()
    assert len(session.given) > 2
    for secret in SECRETS.values():
        assert not any(secret.encode() in given for given in session.given)
