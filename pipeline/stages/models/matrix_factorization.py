"""Recommendations: factors of users and items from what users took, learned by alternating least squares or by ranking pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import polars as pl
from pydantic import Field

from pipeline.backend.devices import Backend
from pipeline.errors import StageError
from pipeline.stage import ColumnName, Context, Outcome, need_columns, need_keys, need_numeric
from pipeline.stages.models._factorization.blocks import blocks_of
from pipeline.stages.models._factorization.lists import (
    OF_ROUND,
    Wanted,
    counts_of_items,
    history,
    item_part,
    list_part,
    listed,
    measured,
    metrics,
    tally,
)
from pipeline.stages.models._factorization.model import Recommender, description_bytes, model_bytes
from pipeline.stages.models._factorization.rounds import Settings, learn
from pipeline.stages.models._factorization.rows import Columns, checked
from pipeline.stages.models._learning import described, with_states
from pipeline.stages.models._predictor import Learns
from pipeline.tables.counts import Count
from pipeline.tables.learned import states_of
from pipeline.tables.part import Part, Schema
from pipeline.tables.table import Fitted, Table

ANSWER: dict[str, pl.DataType] = {"rank": pl.Int32(), "score": pl.Float64()}
OF_ITEM: dict[str, pl.DataType] = {"interactions": pl.Int64(), "recommended": pl.Int64()}
OF_METHOD = {"alpha": ("als", 10.0), "learning_rate": ("bpr", 0.05)}
REGULARIZATION = {"als": 1.0, "bpr": 0.01}


class MatrixFactorization(Learns, name="matrix_factorization", version=1):
    """Recommend to every user the items that they would take next, from what users took.

    A row is an interaction: a user, an item, and how much it weighs (a count, a rating), 1 where there is no `weight`; the weights of a
    pair are added. `als` explains every pair, taken or not, with confidence 1 + alpha x weight in those that were (Hu, Koren & Volinsky
    2008); `bpr` ranks what a user took above what they did not, whatever it weighs (Rendle et al. 2009), and wants more rounds.

    What is held out is not learned from, and measures the lists: a user's last `holdout` interactions by `time` (a user who has no more
    keeps them), or the rows that `split` calls validation and test. Metrics are precision, recall, NDCG and MAP at `top`, means over the
    users who have both, beside those of the most popular items. A pair that was held out and learned from too does not count.

    A row per user and rank: user, item, rank, score, without the items that the user took in training unless `seen`. NAME.items has the
    users of each item and the lists that it is in, NAME.history the loss of each round. `score` takes models/NAME.npz and NAME.json: a
    table of users gets their lists, one of users and items their scores. Rows that lack a value or weigh 0 are left out and counted.

    Example:
        {use: matrix_factorization, from: ratings, as: recommended, user: user_id, item: film, weight: stars, time: rated, holdout: 2}
    """

    roles = ("rows",)
    suffix = "npz"
    counts: ClassVar[Mapping[str, Count]] = {
        "incomplete": Count("rows without a user, item, weight, time or split"),
        "weightless": Count("rows of weight 0"),
        "users": Count("users learned"),
        "items": Count("items learned"),
        "interactions": Count("pairs learned from"),
        "held_out": Count("pairs held out"),
        "held_out_again": Count("pairs held out that were learned from too"),
        "cold_users": Count("users with nothing to learn from"),
        "cold_items": Count("items with nothing to learn from"),
    }

    user: ColumnName = Field(description="Column of users: text or whole numbers.")
    item: ColumnName = Field(description="Column of items: text or whole numbers.")
    weight: ColumnName | None = Field(None, description="Column of weights, above 0: how often, how long, how many stars.")
    time: ColumnName | None = Field(None, description="Column of times, by which `holdout` finds a user's last interactions.")
    holdout: int = Field(0, ge=0, description="How many of a user's last interactions are held out and measured.")
    split: ColumnName | None = Field(
        None, description="Column of train, validation and test, in place of both; by a date it learns nothing later."
    )
    method: Literal["als", "bpr"] = Field("als", description="Alternating least squares, or Bayesian personalized ranking.")
    factors: int = Field(32, ge=1, le=1_000, description="Numbers that describe a user, and an item.")
    rounds: int = Field(15, ge=1, le=10_000, description="Passes over all pairs.")
    regularization: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Weight of the squared factors in what is minimized; 1 by default, 0.01 of bpr."
    )
    alpha: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="als: how much the weight of a pair adds to its confidence; 10 by default."
    )
    learning_rate: float | None = Field(None, gt=0, le=1, description="bpr: how far a step goes downhill; 0.05 by default.")
    seed: int | None = Field(None, ge=0, description="Of the factors at first; the job's seed where it is not given.")
    top: int = Field(10, ge=1, le=10_000, description="Items of a list.")
    seen: bool = Field(False, description="Recommend items that the user took in training, too.")

    @property
    def columns(self) -> Columns:
        """The columns that are read."""
        time = self.time if self.holdout else None
        return Columns(self.user, self.item, self.weight, self.split, time, self.holdout, self.seen)

    def outputs(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        """Lists, items, history. Raises StageError for columns and parameters that do not fit."""
        schema = schemas["rows"]
        for key in ("user", "item"):
            need_id(schema, getattr(self, key), key)
        if self.weight:
            need_numeric(schema, [self.weight], key="weight")
        self._check_split(schema)
        for key, (method, _) in OF_METHOD.items():
            if getattr(self, key) is not None and method != self.method:
                raise StageError(f"it is a parameter of method {method}, and the method is {self.method}. Leave it out.", key=key)
        for key, others in (("user", {*ANSWER}), ("item", {*ANSWER, *OF_ITEM, self.user})):
            if getattr(self, key) in others:
                text = f"column {getattr(self, key)!r} has the name of another column of the result. Rename it before."
                raise StageError(text, key=key)
        columns = {name: schema.columns[name] for name in (self.user, self.item)}
        tables = {"": {**columns, **ANSWER}, "items": {self.item: columns[self.item], **OF_ITEM}, "history": OF_ROUND}
        return {name: Schema(pl.Schema(found)) for name, found in tables.items()}

    def _check_split(self, schema: Schema) -> None:
        """Raise StageError where what is to be held out cannot be found."""
        need_columns(schema, [self.time] if self.time else [], key="time")
        need_columns(schema, [self.split] if self.split else [], key="split")
        if bool(self.time) != bool(self.holdout):
            raise StageError("time and holdout go together: the last so many interactions of a user. Give both, or none.", key="holdout")
        if self.split and self.holdout:
            raise StageError("the rows of split are held out, or the last ones of a user, not both. Leave out one.", key="split")
        if self.split and schema.columns[self.split] != pl.String:
            raise StageError(f"split {self.split!r} is {schema.columns[self.split]}: it must say train, validation or test", key="split")
        if self.time and not (schema.columns[self.time].is_temporal() or schema.columns[self.time].is_numeric()):
            raise StageError(
                f"time {self.time!r} is {schema.columns[self.time]}, which has no order in time. Cast it to a date.", key="time"
            )

    def run(self, tables: Mapping[str, Table], context: Context) -> Outcome:
        """One look at the rows, two exchanges into blocks, the rounds, and the lists of each block of users."""
        session, name, submit = context.session, context.name, context.session.submit
        rows = tables["rows"].named(name)
        blocks = blocks_of(session, self.columns, rows.map(self._needed).map_parts(checked, self.columns).hold())
        taken = submit(counts_of_items, blocks.items, stage=name)
        counts = submit(tally, taken, *blocks.users, stage=name)
        found = learn(session, self._settings(context), blocks)
        wanted, count, ids = Wanted(name, self.top, self.seen, session.backend), len(blocks.users), (blocks.user_ids, blocks.item_ids)
        pairs = list(zip(blocks.users, found.users, strict=True))
        lists = [submit(listed, wanted, block, factors, found.items, taken, stage=name) for block, factors in pairs]
        judged = [submit(measured, wanted, block, some, taken, stage=name) for block, some in zip(blocks.users, lists, strict=True)]
        columns = (self.user, self.item)
        parts = [submit(list_part, columns, (at, count), some, *ids, stage=name) for at, some in enumerate(lists)]
        items = submit(item_part, self.item, blocks.item_ids, taken, *lists, stage=name)
        made = {"": parts, "items": [items], "history": [submit(history, *found.losses, stage=name)]}
        model = submit(model_bytes, *ids, taken, blocks.users, [found.users, found.items], stage=name)
        files = {f"{name}.{self.suffix}": model, f"{name}.json": self._description(rows, context)}
        found_metrics = submit(metrics, self.top, *judged, stage=name)
        return Outcome({key: Table.of(session, name, some) for key, some in made.items()}, files, found_metrics, counts)

    def _settings(self, context: Context) -> Settings:
        seed = context.seed if self.seed is None else self.seed
        given: dict[str, Any] = {key: getattr(self, key) or default for key, (_, default) in OF_METHOD.items()}
        where: dict[str, Any] = {"stage": context.name, "seed": seed, "backend": context.session.backend}
        shape: dict[str, Any] = {
            "factors": self.factors,
            "rounds": self.rounds,
            "regularization": self.regularization or REGULARIZATION[self.method],
        }
        return Settings(method=self.method, **given, **shape, **where)

    def _needed(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.select(self.columns.names)

    def _description(self, rows: Table, context: Context) -> Any:
        """The JSON file, with what the stages before learned."""
        assert rows.schema is not None
        types = {name: str(rows.schema.columns[name]) for name in (self.user, self.item)}
        about = {
            "use": self.name, "model": f"{context.name}.{self.suffix}", "key": self.user, "precision": "Float64",
            "predicts": {"score": "Float64"}, "features": [*types], "types": types, "arrays": [], "codes": {},
            "method": self.method, "factors": self.factors, "top": self.top, "seen": self.seen,
        }  # fmt: skip
        steps = [replace(fitted, state=None) for fitted in rows.fitted]
        return context.session.submit(_description, about, steps, states_of(rows), stage=context.name)

    @classmethod
    def asked(cls, description: Mapping[str, Any], columns: Sequence[str]) -> Mapping[str, Any]:
        """Of a table without items the users' lists: item, rank and score."""
        user, item = description["features"]
        types, answer = dict(description["types"]), {name: str(dtype) for name, dtype in ANSWER.items()}
        if item in columns:
            return {**description, "predicts": {item: types[item], "score": answer["score"]}}
        return {**description, "features": [user], "types": {user: types[user]}, "predicts": {item: types[item], **answer}}

    @classmethod
    def predictor(cls, description: Mapping[str, Any], content: bytes, backend: Backend) -> Any:
        """The recommender."""
        return Recommender.of(description, content, backend)


def _description(about: Mapping[str, Any], steps: list[Fitted], states: list[Part]) -> bytes:
    return description_bytes({**about, "fitted": described(with_states(steps, states))})


def need_id(schema: Schema, name: str, key: str) -> None:
    """Raise StageError for a column that is missing, or neither text nor whole numbers of 64 bits."""
    need_keys(schema, [name], key=key)
    dtype = schema.columns[name]
    if dtype != pl.String and not (dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128)):
        raise StageError(f"column {name!r} is {dtype}; ids are text or whole numbers. Cast it.", key=key)
