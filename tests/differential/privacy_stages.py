"""Stages of privacy: k_anonymity and airlock as SQL, pseudonymise by hashlib."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import polars as pl
from hypothesis import strategies as st

from pipeline.stages.privacy.airlock import Airlock
from pipeline.stages.privacy.k_anonymity import KAnonymity
from pipeline.stages.privacy.pseudonymise import Pseudonymise
from tests.differential.cases import Case
from tests.differential.keyed_stages import KEYS
from tests.differential.oracle import Plain, quoted
from tests.differential.tables import INTEGERS, some, tables

IDS = ("key", "small", "word", "code", *INTEGERS)
SECRET = "0123456789abcdef" * 5


@st.composite
def k_anonymity(draw: st.DrawFn) -> Case:
    """One or two columns by which rows are alike, and one, sometimes, whose values should differ."""
    names, k = draw(some(KEYS, most=2)), draw(st.integers(2, 4))
    sensitive = draw(st.sampled_from(["", *(name for name in KEYS if name not in names)]))
    stage = {"quasi_identifiers": names, "k": k, "action": draw(st.sampled_from(["fail", "warn", "warn"]))}
    by = ", ".join(map(quoted, names))
    distinct = f", count(distinct {quoted(sensitive)}) as {quoted(f'distinct_{sensitive}')}" if sensitive else ""
    alike = f"or count(distinct {quoted(sensitive)}) < 2" if sensitive else ""
    below = f"select {by}, count(*) as rows{distinct} from rows group by {by} having count(*) < {k} {alike}"
    fails = f"select count(*) > 0 from ({below})" if stage["action"] == "fail" else ""
    rows = draw(tables()).rename({"row": "place"})
    work = KAnonymity.model_validate({**stage, **({"sensitive": sensitive} if sensitive else {})})
    return Case(work, {"rows": rows}, "select * from rows", also={"below": below}, fails=fails)


@st.composite
def airlock(draw: st.DrawFn) -> Case:
    """Counts of cells and totals that may all be shown; which small ones are masked, and others beside them, tests of the kernel say."""
    names, least = draw(some(KEYS, 2, 3)), draw(st.integers(2, 4))
    by, across = draw(st.sampled_from([(names[:1], names[1:]), (names[:-1], names[-1:]), (names, [])]))
    rows = pl.concat([draw(tables(most=12)).rename({"row": "place"})] * least)
    down, wide = (", ".join(map(quoted, keys)) for keys in (by, across))
    beside = f"cross join (select distinct {wide} from rows) w" if across else ""
    same = " and ".join(f"r.{quoted(name)} is not distinct from {'d' if name in by else 'w'}.{quoted(name)}" for name in names)
    cells = f"select d.*{', w.*' if across else ''}, 'cell' as kind, (select count(*) from rows r where {same}) as count"
    parts = [f"{cells} from (select distinct {down} from rows) d {beside}", "select 'total' as kind, count(*) as count from rows"]
    if across:
        parts.append(f"select {down}, 'row total' as kind, count(*) as count from rows group by {down}")
        parts.append(f"select {wide}, 'column total' as kind, count(*) as count from rows group by {wide}")
    sql = f"select *, false as masked from ({' union all by name '.join(parts)})"
    return Case(Airlock.model_validate({"by": by, "across": across, "least": least}), {"rows": rows}, sql)


@st.composite
def pseudonymise(draw: st.DrawFn) -> Case:
    """HMAC-SHA-256 of values' texts, as RFC 2104 has it."""
    names, digits, length = draw(some(IDS)), draw(st.sampled_from([24, 32, 64])), draw(st.sampled_from([32, 64, 65]))
    secret = SECRET[:length].encode()
    key = (secret if len(secret) <= 64 else sha256(secret).digest()).ljust(64, b"\0")

    def coded(value: str | int | None) -> str | None:
        if value is None:
            return None
        inner = sha256(bytes(byte ^ 0x36 for byte in key) + str(value).encode()).digest()
        return sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()[:digits]

    def made(given: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        rows = given["rows"]
        return rows.with_columns(pl.Series(name, [coded(value) for value in rows[name]], dtype=pl.String) for name in names)

    stage = Pseudonymise.model_validate({"columns": names, "secret": secret.decode(), "digits": digits})
    return Case(stage, {"rows": draw(tables())}, Plain(f"pseudonyms of {names}", made))
