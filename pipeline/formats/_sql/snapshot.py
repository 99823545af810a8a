"""A moment of a PostgreSQL database that several connections see, for as long as the transaction that shows it is open."""

from __future__ import annotations

from pipeline.formats._sql.database import BEGIN, Database


class Snapshot:
    """The rows as they are now: `name` is what other connections ask for, `state` what had been written, the same until something is.

    The transaction ends with this object.
    """

    def __init__(self, database: Database) -> None:
        self._connection = database.connect()
        with self._connection.cursor() as cursor:
            cursor.execute(BEGIN)
            cursor.execute("select pg_export_snapshot(), pg_current_snapshot()::text")
            self.name, self.state = map(str, cursor.fetchone())

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
