"""What the tests of pooled genome scans share: a cohort whose people are at three sites, and the tables that leave these."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pipeline.kernels.genotypes import take_samples
from pipeline.stages.genomics.site_gwas_sums import SiteGwasSums
from tests.stages.genomics.cohorts import Cohort, Data, run, small_cohort, small_sheet
from tests.stages.models.federation import SITES, shared


def people_of(cohort: Cohort, site: str) -> Cohort:
    """Every third person of a cohort, with the calls."""
    places = np.arange(SITES.index(site), cohort.people.height, 3)
    calls = take_samples(cohort.rows.arrays["calls"], cohort.people.height, places)
    return Cohort(cohort.rows.replaced(calls=calls), cohort.people[places])


def stage_of(site: str, /, **more: Any) -> SiteGwasSums:
    """The stage as the site runs it."""
    given = {
        "site": site, "sites": SITES, "trait": "height", "covariates": ("age", "sex"), "study": "one", "missing": "complete_case",
        "secrets": shared(site), "least": 5, "carriers": 0, **more,
    }  # fmt: skip
    return SiteGwasSums.model_validate(given)


def leaving(site: str, cohort: Cohort | None = None, sheet: pl.DataFrame | None = None, parts: int = 2, **more: Any) -> pl.DataFrame:
    """The table that leaves a site."""
    data: dict[str, Data] = {"genotypes": people_of(cohort or small_cohort(), site), "samples": small_sheet() if sheet is None else sheet}
    return run(stage_of(site, **more), data, parts)[""].frame
