"""Names of people become pseudonyms that only the holder of a secret can make."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence

import polars as pl
from pydantic import Field, SecretStr, field_serializer

from pipeline.errors import StageError
from pipeline.stage import ColumnNames, Context, Outcome, Stage, need_columns
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table

LEAST_SECRET, LEAST_KINDS = 32, 8
FINGERPRINT = b"gpu-table-pipeline: a secret's fingerprint"  # no value of a table is this, so no pseudonym tells it


class Pseudonymise(Stage, name="pseudonymise", version=1):
    """Put pseudonyms in the place of names, numbers and other ids: HMAC-SHA-256 of each value under a secret, in hexadecimal digits.

    One value has one pseudonym in every table, run, part and backend as long as the secret is the same, so tables that were pseudonymised
    apart can be joined, and with another secret nothing can. A whole number counts as its text: 17 and '17' are one person. Texts count
    as they are, byte by byte; trim them and mend their case before. What is missing stays missing.

    Two values share one of 32 digits (128 bits) with a probability of 10^-21 among a thousand million; of 24 digits it is 10^-11.

    The secret comes from the environment, as 32 characters or more that nobody can guess, of 8 kinds at least (openssl rand -hex 32). It
    stands in no file and no message of a run; a fingerprint changes with it and does not tell it. Whoever has it can try every id there
    may be, so keep it away from the data: a table with pseudonyms is still about people. See `k_anonymity` for what is left in it.

    Example: {use: pseudonymise, from: visits, as: coded, columns: [patient_id, doctor_id], secret: "${CLINIC_SECRET:-}"}
    """

    columns: ColumnNames = Field(description="The columns to replace: texts or whole numbers.")
    secret: SecretStr = Field(repr=False, description="The secret, from the environment: ${NAME}.")
    digits: int = Field(32, ge=24, le=64, description="How many of the 64 hexadecimal digits a pseudonym has.")

    @field_serializer("secret")
    def _fingerprint(self, secret: SecretStr) -> str:
        """What tells one secret from another in the stage's fingerprint, and tells neither."""
        return hmac.digest(secret.get_secret_value().encode(), FINGERPRINT, "sha256").hex()

    def check_input(self, role: str, schema: Schema) -> None:
        """The columns exist and hold ids, and the secret cannot be guessed; no text has the secret."""
        need_columns(schema, self.columns, key="columns")
        for name in self.columns:
            dtype = schema.columns[name]
            if not (dtype.is_integer() or dtype == pl.String):
                raise StageError(f"column {name!r} is {dtype}, and an id is text or a whole number. Cast it before.", key="columns")
        secret = self.secret.get_secret_value()
        if len(secret) < LEAST_SECRET or len({*secret}) < LEAST_KINDS:
            raise StageError(
                f"it has {len(secret)} characters of {len({*secret})} kinds and could be guessed; at least {LEAST_SECRET} of {LEAST_KINDS} "
                "kinds are needed. Make one with: openssl rand -hex 32.",
                key="secret",
            )

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One step on parts."""
        (rows,) = tables.values()
        found = rows.named(context.name).map_parts(_coded, self.columns, self.secret, self.digits, writes=frozenset(self.columns))
        return Outcome({"": found})


def _coded(part: Part, columns: Sequence[str], secret: SecretStr, digits: int) -> Part:
    key = secret.get_secret_value().encode()
    return part.replaced(part.frame.with_columns(pseudonyms(part.frame[name], key, digits) for name in columns))


def pseudonyms(values: pl.Series, key: bytes, digits: int) -> pl.Series:
    """The pseudonyms of texts or whole numbers, null where they are."""
    texts = values.cast(pl.String)
    known = texts.drop_nulls().unique()
    coded = [hmac.digest(key, text.encode(), "sha256").hex()[:digits] for text in known]
    return texts.replace_strict(known, pl.Series(coded, dtype=pl.String), default=None, return_dtype=pl.String)
