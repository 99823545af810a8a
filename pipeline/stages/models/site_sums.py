"""The sums of products that linear regression needs of one site's rows, under masks that only the sum over all sites takes off."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import polars as pl
from pydantic import Field

from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnName, Context, Outcome, need_numeric
from pipeline.stages.models._pooled.masks import Agreed, Pads, masked, masks_of
from pipeline.stages.models._pooled.pooling import TABLE, table_of
from pipeline.stages.models._pooled.site import OfSite
from pipeline.stages.models._pooled.sums import INTERCEPT, MOST_DIGITS, Sums, added, summed
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, hidden
from pipeline.tables.table import Table


class SiteSums(OfSite, name="site_sums", version=2):
    """Sum the products of intercept, features and target over this site's rows, masked: what leaves the site for `pooled_linear`.

    Every site runs it on its own rows with the same study, sites, target, features and digits. A row an entry of the upper triangle of
    [1, features, target]' [1, features, target], the first of which counts rows: study, site, sites, columns, digits, first, second and
    masked, 128 hexadecimal digits. Rows with a missing value are left out and counted. Sums are whole numbers in units of
    2^(-2 digits), exact for any parts.

    Each two sites share a secret, from which both derive a number for every entry (HMAC-SHA512, SHAKE-256); one adds it, the other
    subtracts it, modulo 2^512. To whoever lacks its secrets one site's table is random digits, and so is the sum over some of the sites;
    the sum over all is the exact pooled one, which is not hidden. This holds against sites, and whoever pools, that keep to the rules and
    look: a site that gives false sums is not found out, all sites but one together learn the sums of that one, and without one site's
    table there is no answer. A study is one round: with the same study and secrets, tables of rows that have changed tell the change. Name
    it anew each time.

    Example:
        {use: site_sums, from: patients, as: sums, site: berlin, sites: [berlin, oslo], target: pressure, features: [age, weight],
         study: pressure-2026-1, secrets: {oslo: "${OSLO_SECRET:-}"}}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "rows_used": Count("rows in the sums"),
        "rows_left_out": Count("rows with a missing value left out", always=True),
    }

    target: ColumnName = Field(description="Column to be learned.")
    features: tuple[ColumnName, ...] = Field(min_length=1, description="Columns to learn it from, at every site in the same order.")
    digits: int = Field(96, ge=0, le=MOST_DIGITS, description="Binary digits after the point that a value may have.")
    least: int = Field(20, ge=1, description="Fewest complete rows that this site gives sums of: those of a few tell about each.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """What leaves the site. Raises StageError for columns that cannot be summed, and for sites and secrets that do not fit."""
        columns = schemas["rows"].columns
        for key, names in {"target": [self.target], "features": list(self.features)}.items():
            need_numeric(schemas["rows"], names, key=key)
            for name in names:
                if columns[name].is_decimal():
                    raise StageError(f"column {name!r} is {columns[name]}; whole numbers and floats are summed. Cast it.", key=key)
        for name in self.features:
            if name in (self.target, INTERCEPT) or self.features.count(name) > 1:
                raise StageError(
                    f"{name!r} is the target or the intercept's name, or there twice. Leave it out or rename it.", key="features"
                )
        self.check_sites()
        return {"": Schema(pl.Schema(TABLE))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """Sums over the parts and one task that masks them."""
        submit, name, columns = context.session.submit, context.name, [*self.features, self.target]
        rows = tables["rows"].named(name).map(partial(_chosen, columns))
        sums = submit(_enough, rows.reduce(summed, added, columns, self.digits), self.site, self.least, stage=name)
        agreed = Agreed(self.study, self.sites, (INTERCEPT, *columns), self.digits)
        table = submit(_masked, sums, self.pads(agreed), agreed, self.site, stage=name)
        return Outcome({"": Table.of(context.session, name, [table])}, counts=submit(_counts, sums, stage=name))


def _chosen(columns: list[str], rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select(*columns, *hidden(rows))


def _enough(sums: Sums, site: str, least: int) -> Sums:
    """The sums. Raises DataError where they are of too few rows."""
    if sums.rows < least:
        raise DataError(
            f"site {site!r} has {sums.rows} rows without a missing value ({sums.left_out} with one), and least is {least}: sums of "
            "so few would tell about each of them. Join this site's rows with another's, or leave the site out of the study."
        )
    return sums


def _masked(sums: Sums, pads: Pads, agreed: Agreed, site: str) -> Part:
    return table_of(agreed, site, [masked(*pair) for pair in zip(sums.entries, masks_of(pads, len(sums.entries)), strict=True)])


def _counts(sums: Sums) -> dict[str, int]:
    return {"rows_used": sums.rows, "rows_left_out": sums.left_out}
