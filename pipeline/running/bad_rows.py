"""Bad rows of inputs while a job runs: a table of their own, their count in the record, and the run's end where they are too many."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any

from pipeline.errors import DataError
from pipeline.format import InputFormat
from pipeline.running.accounting import Accounting
from pipeline.running.pending import Waiting
from pipeline.tables.bad_rows import SCHEMA, TABLE, Sifts, sift
from pipeline.tables.session import ClusterSession
from pipeline.tables.table import Table


def bad_rows(session: ClusterSession, name: str, reader: InputFormat, accounting: Accounting, waiting: Waiting) -> Table | None:
    """The table of an input's bad rows, whose tasks are submitted and counted; None where they fail the run, or there can be none.

    Their count goes to the record, and a note of it to the session. The run waits for it, and fails where there are too many.
    """
    sieves = reader.sieves(session.workers * session.readers)
    if not (sieves and isinstance(reader, Sifts)):
        return None
    found = [session.submit(sift, sieve, stage=name, on_host=True) for sieve in sieves]
    parts = [session.submit(itemgetter(0), one, stage=name, on_host=True) for one in found]
    counts = [session.submit(_counted, one, stage=name, on_host=True) for one in found]
    waiting.add(f"bad rows of {name}", counts, partial(_conclude, session.notes, name, reader.max_bad_rows, accounting))
    return Table.of(session, name, parts, schema=SCHEMA)


def _counted(found: tuple[Any, int]) -> tuple[int, int]:
    part, rows = found
    return part.frame.height, rows


def _conclude(notes: list[str], name: str, most: float | None, accounting: Accounting, counts: list[tuple[int, int]]) -> None:
    """Note the count. Raises DataError where more are bad than the job allows: a count, or a share where it is a float."""
    bad, rows = (sum(count[place] for count in counts) for place in (0, 1))
    accounting.of(name).counts["quarantined"] = bad
    if not bad:
        return
    said = f"{bad:,} of {rows:,} rows are bad ({bad / rows:.4%})"
    if most is not None and bad > (most * rows if isinstance(most, float) else most):
        allowed = f"{most:.4%}" if isinstance(most, float) else f"{most:,}"
        remedy = f"Correct them, or allow more; without max_bad_rows the table {name}.{TABLE} has them."
        raise DataError(f"{said}, and max_bad_rows allows {allowed}. {remedy}", stage=name)
    notes.append(f"{name}: {said}, and left out; the table {name}.{TABLE} has them")
