"""What leaves a site in a round, masked, and what the messages of all sites add up to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import DataError
from pipeline.kernels.fixed_digits import carried, digits_of, numbers_of, times
from pipeline.stages.models._federated.shared_model import ROWS
from pipeline.stages.models._pooled.masks import Agreed, Pads, digits_in, text_of
from pipeline.stages.models._pooled.pooling import agreed_in
from pipeline.tables.part import Part

Array = Any
TABLE = {
    "study": pl.String(),
    "site": pl.String(),
    "sites": pl.String(),
    "columns": pl.String(),
    "digits": pl.Int64(),
    "name": pl.String(),
    "masked": pl.String(),
    "privacy": pl.String(),
}
"""Columns of what leaves a site; `sites`, `columns` and `privacy` are in JSON."""
BITS = 40
"""Numbers are rounded to 2^-40, far below the last digit of a parameter."""
WIDTH = 8
"""Digits of a masked number: 128 bits."""
LARGEST = 2.0**20
_MOST_ROWS = 1 << 32


@dataclass(frozen=True)
class Pooled:
    """Sites, rows of all of them, and the means over them of what the sites sent, float64 by name; what each site said of privacy."""

    sites: int
    rows: int
    means: Mapping[str, Array]
    privacy: Mapping[str, Any]


def message(agreed: Agreed, site: str, pads: Pads, sent: Mapping[str, Array], rows: int, privacy: Mapping[str, Any] | None) -> Part:
    """A row an array of what is sent, each number as often as there are rows. Raises DataError for numbers that are none any more."""
    said = {"study": agreed.study, "site": site, "sites": json.dumps(agreed.sites), "columns": json.dumps(agreed.columns)}
    told = {**said, "digits": agreed.digits, "privacy": json.dumps(privacy)}
    lines = []
    for name, values in sent.items():
        flat = np.asarray(values, np.float64).reshape(-1)
        if not (np.abs(flat) < LARGEST).all():
            raise DataError(
                f"{name} has come to {np.abs(flat).max():g}: training does not hold together. Lower learning_rate, or give clip."
            )
        digits = times(digits_of(np.rint(np.ldexp(flat, agreed.digits)).astype(np.int64)), digits_of(np.array(rows)))
        masks = pads.digits([name], len(flat), WIDTH)
        masks[:, : digits.shape[1]] += digits
        lines.append({**told, "name": name, "masked": text_of(carried(masks, WIDTH))})
    return Part(pl.DataFrame(lines, TABLE))


def pooled(part: Part, study: str, sizes: Mapping[str, int], columns: tuple[str, ...]) -> Pooled:
    """Of the messages of all sites, for a model that takes arrays of these sizes.

    Raises DataError for what is missing, double or not agreed, of another round or model, and where masks stay.
    """
    rows = part.frame.select(*TABLE)
    agreed = agreed_in(rows, "site_update", BITS)
    if (agreed.study, agreed.columns) != (study, columns):
        raise DataError(
            f"the sites have trained {agreed.study!r} ({len(agreed.columns)} arrays), and the model given here is that of {study!r} "
            f"({len(columns)}). Give the model that all sites were given."
        )
    found = {name: _summed(rows.filter(name=name), agreed, name, size) for name, size in sizes.items()}
    unit = 1 << agreed.digits
    count = int(found[ROWS][0])
    if count % unit or not 0 < count < unit * _MOST_ROWS:
        raise DataError(
            f"the masks of the sites do not cancel: what should be the number of rows is none. Two of {', '.join(agreed.sites)} have used "
            "different secrets for each other, or a table was changed. Run site_update at every site again, under a new study."
        )
    means = {name: np.array([value / count for value in values]) for name, values in found.items()}
    told = rows.select("site", "privacy").unique().sort("site")
    return Pooled(
        len(agreed.sites), count // unit, means, {site: json.loads(text) for site, text in told.iter_rows() if text and text != "null"}
    )


def _summed(rows: pl.DataFrame, agreed: Agreed, name: str, size: int) -> Array:
    """The sum of all sites' numbers of one array, each in Python's whole numbers."""
    at = dict(rows.select("site", "masked").iter_rows())
    if rows.height != len(at):
        raise DataError(f"a site's table is there twice ({name}). Give it once.")
    if lacking := [site for site in agreed.sites if site not in at]:
        raise DataError(f"the table of site {lacking[0]!r} has no {name}. Take its file again, whole.")
    try:
        digits = digits_in([text or "" for text in at.values()], size, WIDTH)
    except ValueError as error:
        raise DataError(f"a site's {name} is no masked array ({error}). Take the files of all sites again.") from error
    return numbers_of(carried(digits.sum(axis=0), WIDTH))
