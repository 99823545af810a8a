"""The model after a round of federated averaging, from the masked tables that all sites gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from pydantic import Field, PrivateAttr

from pipeline.backend.neural import need_neural
from pipeline.errors import StageError, under
from pipeline.stage import Context, Outcome, Stage, Whole, need_columns
from pipeline.stages.models._federated.messages import TABLE, Pooled, pooled
from pipeline.stages.models._federated.shared_model import FEDERATED, LOSS, SharedModel, columns_of, described, sizes_of
from pipeline.stages.models._network.attending import HISTORY
from pipeline.stages.models._published import Published, read_published
from pipeline.tables.counts import Count
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Table


class FederatedAverage(Whole, name="federated_average", version=1):
    """Average what all sites have learned in a round (FedAvg, weighted by their rows), and publish the model of the next round.

    The rows are the union of the tables that `site_update` made at every site from `model`. The model comes out as models/NAME.safetensors
    with models/NAME.json beside it, as one of `network`: it is the next round's `model`, and `score` takes it. NAME has, for every round so
    far, how well its model fitted the rows of all sites as the round began (round, split, metric, value: rmse or log_loss), but for rounds
    with privacy: there the metrics have what each site has spent of it. Every site of the study must be there, with this model, the same
    study and sites; masks that do not cancel are refused.

    Example:
        {use: federated_average, from: updates_of_all, as: risk, model: rounds/current/models/risk.json, study: risk-2026}
    """

    counts: ClassVar[Mapping[str, Count]] = {
        "sites": Count("sites"),
        "rows_used": Count("rows of all sites"),
        "round": Count("round"),
    }

    model: str = Field(min_length=1, description="The JSON file of the model that the sites have trained on; the model lies beside it.")
    study: str = Field(min_length=1, description="Name of the study, as the sites have given it.")

    _published: Published = PrivateAttr()

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with the model's description read."""
        with under("model"):
            found = read_published(self.model, stage_class)
        made = self.model_copy()
        made._published = found
        return made

    def files(self) -> Sequence[str]:
        """The model's two files."""
        return (self._published.path, self._published.model)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """A row a round. Raises StageError for a table that is none of `site_update`; PlaceError where JAX is not installed."""
        need_neural()
        SharedModel.of(self._published)
        need_columns(schemas["rows"], TABLE, key="from")
        for name, dtype in TABLE.items():
            if (found := schemas["rows"].columns[name]) != dtype:
                raise StageError(f"column {name!r} is {found}, and {dtype} in a table of site_update. Cast it.", key="from")
        return {"": Schema(pl.Schema(HISTORY))}

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One task that adds, and one that steps."""
        submit, name, model = context.session.submit, context.name, SharedModel.of(self._published)
        sizes = sizes_of(model.network().parameters)
        rows = tables["rows"].named(name).value()
        found = submit(pooled, rows, model.study(self.study), sizes, tuple(columns_of(sizes)), stage=name)
        after = submit(_averaged, model, found, name, stage=name)
        files = {f"{name}.safetensors": submit(_content, after, stage=name), f"{name}.json": submit(_description, after, stage=name)}
        table = Table.of(context.session, name, [submit(_table, after, stage=name)])
        return Outcome({"": table}, files, submit(_metrics, after, stage=name), submit(_counts, after, found, stage=name))


def _averaged(model: SharedModel, found: Pooled, name: str) -> SharedModel:
    """The model after the round."""
    network = model.network()
    parameters = {
        name: (array.astype(np.float64) + found.means[name].reshape(array.shape)).astype(np.float32)
        for name, array in network.parameters.items()
    }
    past = {"round": model.round, "rows": found.rows, **_measured(network, found), "privacy": dict(found.privacy)}
    told = {
        **model.description, "model": f"{name}.safetensors", "rounds_used": model.round + 1,
        FEDERATED: {"round": model.round + 1, "history": [*model.history, past]},
    }  # fmt: skip
    return SharedModel(told, replace(network, parameters=parameters).saved())


def _measured(network: Any, found: Pooled) -> dict[str, Any]:
    """How well the model fitted before the round; sites that add noise do not say."""
    loss = None if found.privacy else float(found.means[LOSS][0])
    if network.objective != "regression":
        return {"metric": "log_loss", "value": loss}
    return {"metric": "rmse", "value": None if loss is None else float(np.sqrt(2 * loss) * network.target[1])}


def _content(model: SharedModel) -> bytes:
    return model.content


def _description(model: SharedModel) -> bytes:
    return described(model.description)


def _table(model: SharedModel) -> Part:
    return Part(pl.DataFrame(model.curve(), HISTORY, orient="row"))


def _metrics(model: SharedModel) -> dict[str, Any]:
    """The model before the round, and what each site says of privacy."""
    last = model.history[-1]
    before = {"round": model.round, **({f"{last['metric']}_before": last["value"]} if last["value"] is not None else {})}
    return {"all sites": before, **last["privacy"]}


def _counts(model: SharedModel, found: Pooled) -> dict[str, int]:
    return {"sites": found.sites, "rows_used": found.rows, "round": model.round}
