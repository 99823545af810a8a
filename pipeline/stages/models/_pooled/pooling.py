"""The masked tables of all sites put together: checked, and the masks taken off by adding."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline.errors import DataError
from pipeline.stages.models._pooled.masks import HEX_DIGITS, Agreed, unmasked
from pipeline.stages.models._pooled.sums import MOST_DIGITS, VALUE_BITS, entries_of
from pipeline.tables.part import Part

TABLE = {
    "study": pl.String(),
    "site": pl.String(),
    "sites": pl.String(),
    "columns": pl.String(),
    "digits": pl.Int64(),
    "first": pl.String(),
    "second": pl.String(),
    "masked": pl.String(),
}
"""Columns of what leaves a site; `sites` and `columns` are lists in JSON."""
AGREED = ("study", "sites", "columns", "digits")


@dataclass(frozen=True)
class Pooled:
    """The sums over all sites, `entries` in units of 2^(-2 digits) by their two columns, of so many rows."""

    agreed: Agreed
    rows: int
    entries: Mapping[tuple[str, str], int]


def table_of(agreed: Agreed, site: str, texts: Sequence[str]) -> Part:
    """What leaves a site: a row an entry."""
    said = {"study": agreed.study, "site": site, "sites": json.dumps(agreed.sites), "columns": json.dumps(agreed.columns)}
    entries = entries_of(agreed.columns)
    rows = [{**said, "digits": agreed.digits, "first": a, "second": b, "masked": text} for (a, b), text in zip(entries, texts, strict=True)]
    return Part(pl.DataFrame(rows, TABLE))


def pooled(part: Part) -> Pooled:
    """Of the tables of all sites below one another. Raises DataError for what is missing, double, or not agreed, and where masks stay."""
    rows = part.frame.select(*TABLE)
    agreed = agreed_in(rows)
    _check_entries(rows, agreed)
    texts: dict[tuple[str, str], list[str]] = {}
    for site, first, second, text in rows.select("site", "first", "second", "masked").iter_rows():
        if text is None or re.fullmatch(f"[0-9a-f]{{{HEX_DIGITS}}}", text) is None:
            raise DataError(f"site {site!r} has {text!r:.40} for {_named((first, second))}, which is no masked sum. Take its file again.")
        texts.setdefault((first, second), []).append(text)
    entries = {entry: unmasked(texts[entry]) for entry in entries_of(agreed.columns)}
    count, unit = entries[agreed.columns[0], agreed.columns[0]], 1 << (2 * agreed.digits)
    largest = (1 << (3 * VALUE_BITS)) * unit
    if count % unit or not 0 < count < unit << VALUE_BITS or any(abs(value) > largest for value in entries.values()):
        raise DataError(
            f"the masks of the sites do not cancel: what should be the number of rows is none. Two of {', '.join(agreed.sites)} have used "
            "different secrets for each other, or a table was changed. Let each pair share a new secret, and run site_sums at every site "
            "again, under a new study."
        )
    return Pooled(agreed, count // unit, entries)


def agreed_in(rows: pl.DataFrame, made_by: str = "site_sums", most_digits: int = MOST_DIGITS) -> Agreed:
    """What all tables say alike. Raises DataError where they do not, and for a site that is missing or none of the study's."""
    if not rows.height:
        raise DataError(f"there is no row: give the tables that {made_by} made at every site, below one another")
    for name in AGREED:
        said: dict[Any, set[str]] = {}
        for value, site in rows.select(name, "site").unique().iter_rows():
            said.setdefault(value, set()).add(str(site))
        if len(said) > 1:
            told = "; ".join(sorted(f"{value!r} ({', '.join(sorted(sites))})" for value, sites in said.items()))
            raise DataError(f"the sites have not agreed on {name}: {told}. Run {made_by} at every site with the same parameters.")
    study, sites, columns, digits = rows.select(AGREED).row(0)
    try:
        agreed = Agreed(study, tuple(json.loads(sites)), tuple(json.loads(columns)), digits)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"sites and columns must be lists in JSON, and are {sites!r:.60} and {columns!r:.60}. Take the files again."
        ) from error
    if len(agreed.sites) < 2 or len(agreed.columns) < 3 or digits is None or not 0 <= digits <= most_digits:
        raise DataError(f"these are no tables of {made_by}: sites {sites!r:.60}, columns {columns!r:.60}, digits {digits}")
    there = {*rows["site"].unique().to_list()}
    if missing := [site for site in agreed.sites if site not in there]:
        raise DataError(f"the table of site {missing[0]!r} is missing. The sums stay masked until all are there: {', '.join(agreed.sites)}")
    if other := sorted(str(site) for site in there if site not in agreed.sites):
        raise DataError(f"there is a table of site {other[0]!r}, and the study is of {', '.join(agreed.sites)}. Leave it out.")
    return agreed


def _check_entries(rows: pl.DataFrame, agreed: Agreed) -> None:
    """Raise DataError where an entry of a site is missing, there twice, or not of the study."""
    found = Counter(rows.select("site", "first", "second").iter_rows())
    entries = entries_of(agreed.columns)
    for site in agreed.sites:
        for entry in entries:
            if found[(site, *entry)] == 0:
                raise DataError(f"the table of site {site!r} has no {_named(entry)}. Take its file again, whole.")
    if double := [key for key, times in found.items() if times > 1]:
        site, *named = double[0]
        raise DataError(f"the table of site {site!r} is there {found[double[0]]} times ({_named(named)}). Give it once.")
    if len(found) > len(agreed.sites) * len(entries):
        site, *named = next(key for key in found if key[1:] not in entries)
        raise DataError(f"the table of site {site!r} has {_named(named)}, which is none of the study's. Take its file again.")


def _named(entry: Sequence[str]) -> str:
    return f"entry {entry[0]} x {entry[1]}"
