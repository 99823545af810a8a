"""What tasks measured and counted, put to the accounts of the tables and stages that it is of."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.errors import DataError
from pipeline.running.record import Account
from pipeline.tables.budget import Budget
from pipeline.tables.counts import unseen
from pipeline.tables.measured import Measured


class Accounting:
    """The accounts of a run, by table; `planned` are the rows that the footers of inputs told."""

    def __init__(self, accounts: dict[str, Account], planned: Mapping[str, int | None]) -> None:
        self.accounts, self.planned = accounts, planned
        self.seen: dict[str, int] = {}  # counts of rows that several tasks count

    def of(self, table: str) -> Account:
        """A table's account, opened where there is none yet."""
        return self.accounts.setdefault(table, Account(table, "table"))

    def rows(self, name: str, values: list[int]) -> None:
        """Rows of an input that no footer told."""
        measured = self.of(name)
        if measured.bytes is not None and measured.rows not in (None, values[0]):
            raise _differs(name, measured.rows or 0, values[0])
        measured.rows = values[0]

    def infinities(self, name: str, values: list[int]) -> None:
        """Infinite values of an input, where there are some."""
        if values[0]:
            self.of(name).counts["infinities"] = values[0]

    def on_disk(self, budget: Budget | None) -> None:
        """Of each stage that worked beyond memory, how many parts it cut or laid down there, and the bytes that a sample had shown."""
        for stage, parts in budget.on_disk.items() if budget else ():
            self.of(stage).measures["parts_on_disk"] = parts
        for stage, size in budget.foreseen.items() if budget else ():
            self.of(stage).measures["bytes_foreseen"] = size

    def measured(self, table: str | None, values: list[Measured]) -> None:
        """Rows, bytes and parts to the table's account, every count to that of the stage that made it.

        Raises DataError where an input has other rows than its footers told.
        """
        (measured,) = values
        planned = self.planned.get(table or "")
        if table and planned not in (None, measured.rows):
            raise DataError(f"input {table}: {measured.rows:,} rows were read where its footers told {planned:,}. Run again.")
        if table:
            if self.of(table).bytes is not None:  # computed once more for another reader
                return
            counted = self.of(table).rows
            self.of(table).add(measured)
            if counted not in (None, measured.rows):
                raise _differs(table, measured.rows, counted or 0)
        for name, count in measured.counts.items():
            plain, new = unseen(name, count, self.seen)
            stage, _, what = plain.partition(":")
            self.of(stage).counts[what] = self.of(stage).counts.get(what, 0) + new


def _differs(name: str, found: int, wanted: int) -> DataError:
    return DataError(f"input {name}: {found:,} rows were read where there are {wanted:,}. Nothing was published. Please report this.")
