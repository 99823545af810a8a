"""One site's part of a round of federated averaging: some epochs on its own rows, and how far the model moved, masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.errors import DataError, StageError
from pipeline.stage import ColumnName, Context, Outcome, need_columns
from pipeline.stages.models._federated.local import Steps, Update, arrays_of, rows_of, targets_of, updated
from pipeline.stages.models._federated.messages import BITS, TABLE, message
from pipeline.stages.models._federated.privacy import Privacy
from pipeline.stages.models._federated.shared_model import SharedModel, columns_of, sizes_of
from pipeline.stages.models._of_model import OfModel
from pipeline.stages.models._pooled.masks import Agreed
from pipeline.stages.models._pooled.site import OfSite
from pipeline.stages.models._supervised import is_number
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.table import Table


class SiteUpdate(OfSite, OfModel, name="site_update", version=1):
    """Train the model that all sites share on this site's rows for some epochs, and give how far it moved: a table for `federated_average`.

    `model` is the one that federated_start or the round before published; it brings the target, the features with how they are
    standardized, and the round. Every site runs it with the same study, sites and model. A row an array of parameters (and one for the
    number of rows, one for the loss of the model as it came): what is agreed, name and `masked`, 32 hexadecimal digits a number. Numbers
    are rounded to 2^-40 and count as often as the site has rows. Secrets and masks are those of `site_sums`; masks are new in every round,
    which knows its model. Rows of split `train` with a target are learned from, in the order of the key, in one task.

    With one epoch of one batch (sgd, no momentum) a round is a step of gradient descent on the rows of all sites. More epochs save
    rounds; where sites differ they end beside the pooled optimum, the further the longer a site goes alone.

    `privacy` hides each row: of every step's rows, drawn each for itself, the gradients are shortened to `clip` and noise is added to their
    sum (DP-SGD). What the rounds so far and all planned ones cost (epsilon, by the accountant of dp-accounting, for rows added or removed)
    stands in the metrics and goes with the table. The noise is the system's entropy, of no seed: such a run cannot be repeated. All rounds
    must have the same parameters; the number of rows and the sums of `site_sums` are not hidden by noise.

    Example:
        {use: site_update, from: patients, as: update, model: rounds/current/models/risk.json, site: berlin, sites: [berlin, oslo],
         study: risk-2026, epochs: 2, batch_size: 64, learning_rate: 0.05, secrets: {oslo: "${OSLO_SECRET:-}"}}
    """

    counts: ClassVar[Mapping[str, Count]] = {"rows_used": Count("rows learned from"), "round": Count("round")}

    study: str = Field(min_length=1, description="Name of the study, the same in all its rounds.")
    split: ColumnName | None = Field("split", description="Column whose rows of train are learned from; null to learn from all.")
    epochs: int = Field(1, ge=1, le=10_000, description="Passes over the rows in a round.")
    batch_size: int | None = Field(None, ge=1, le=1_000_000, description="Rows of a step; all rows of the site where it is null.")
    optimizer: Literal["sgd", "adamw"] = Field("sgd", description="How parameters step; it begins anew in every round.")
    learning_rate: float = Field(0.1, gt=0, le=10, description="Size of a step.")
    momentum: float = Field(0.0, ge=0, lt=1, description="sgd: share of the step before that goes on, within a round.")
    weight_decay: float = Field(0.0, ge=0, description="How fast weights shrink; biases do not.")
    clip: float | None = Field(None, gt=0, description="The longest gradient of a step, over all parameters; a longer one is shortened.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of a hidden layer's values that a step leaves out.")
    privacy: Privacy | None = Field(None, description="Hide each row behind noise, and say what the rounds cost (extra federated).")
    least: int = Field(20, ge=1, description="Fewest rows that this site trains on: a step of a few tells about each.")

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """What leaves the site.

        Raises StageError for columns, sites and secrets that do not fit, and for a model of no round; PlaceError where JAX is not
        installed.
        """
        schema = schemas["rows"]
        told = self.published.description
        self.check_rows(schema)
        self.check_sites()
        self.check_privacy(SharedModel.of(self.published).round)
        target = str(told["target"])
        need_columns(schema, [target, str(told["key"])], key="from")
        need_columns(schema, [self.split] if self.split else [], key="split")
        if not told["classes"] and not is_number(schema.columns[target]):
            raise StageError(f"target {target!r} is {schema.columns[target]}, and numbers are needed. Cast it.", key="from")
        if self.split and schema.columns[self.split] != pl.String:
            raise StageError(
                f"{self.split!r} is {schema.columns[self.split]}: it must say train, validation or test (see split)", key="split"
            )
        return {"": Schema(pl.Schema(TABLE))}

    def check_privacy(self, rounds: int) -> None:
        """Raise StageError for privacy that is not whole, or spent after so many rounds; PlaceError where its library is not installed."""
        if not self.privacy:
            return
        self.privacy.check()
        if self.clip is not None:
            raise StageError("with privacy every row's gradient is shortened, by privacy.clip. Leave clip out.", key="clip")
        if rounds >= self.privacy.rounds:
            text = (
                f"the model has {rounds} rounds behind it, and privacy is planned for {self.privacy.rounds}: what was to be spent is spent"
            )
            raise StageError(text, key="privacy.rounds")

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One task that trains, and one that masks."""
        session, submit, name = context.session, context.session.submit, context.name
        bare = self.bare()
        rows, axes = bare.prepared(tables["rows"].named(name))
        model = SharedModel.of(self.published)
        seed = int(np.random.default_rng([context.seed, model.round]).integers(2**31))
        update = submit(bare.trained, model, rows.futures(), axes, (name, seed, session.backend), stage=name)
        columns = columns_of(sizes_of(model.network().parameters))
        agreed = Agreed(model.study(self.study), self.sites, tuple(columns), BITS)
        table = submit(_message, agreed, self.site, self.pads(agreed), update, stage=name)
        metrics = submit(_metrics, model, update, stage=name)
        return Outcome({"": Table.of(session, name, [table])}, {}, metrics, submit(_counts, model, update, stage=name))

    def trained(self, model: SharedModel, parts: Sequence[Part], axes: Sequence[Part], place: tuple[str, int, Backend]) -> Update:
        """The update by all parts' rows. Raises DataError for too few."""
        name, seed, backend = place
        part = rows_of(concat_parts(parts), self.split, str(model.description["target"]))
        order = part.frame[str(model.description["key"])].arg_sort()
        part = Part(part.frame[order])
        arrays = arrays_of(self.matrix(part, axes), targets_of(part.frame, model), model)
        if (count := len(arrays["targets"])) < self.least:
            raise DataError(
                f"site {self.site!r} has {count} rows to learn from, and least is {self.least}: a step of so few would tell about each of "
                "them. Join this site's rows with another's, or leave the site out of the study."
            )
        return updated(name, model, arrays, self.steps, seed, backend)

    @property
    def steps(self) -> Steps:
        """How it steps."""
        return Steps(
            self.epochs,
            self.batch_size,
            self.optimizer,
            self.learning_rate,
            self.momentum,
            self.weight_decay,
            self.clip,
            self.dropout,
            self.privacy,
        )


def _message(agreed: Agreed, site: str, pads: Any, update: Update) -> Part:
    return message(agreed, site, pads, update.sent, update.rows, update.privacy)


def _metrics(model: SharedModel, update: Update) -> dict[str, Any]:
    """What stays at the site: the mean loss of the first epoch and the last, while it was learned from; and the privacy that is spent."""
    losses = {"round": model.round + 1, "loss_first_epoch": update.losses[0], "loss_last_epoch": update.losses[-1]}
    return {"training": losses, **({"privacy": update.privacy} if update.privacy else {})}


def _counts(model: SharedModel, update: Update) -> dict[str, int]:
    return {"rows_used": update.rows, "round": model.round + 1}
