"""A model as a parameter of another stage: how a job spells it, how it gets other values, and how one task runs it by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic_core import core_schema

from pipeline.backend.devices import Backend
from pipeline.errors import StageError
from pipeline.stage import Context, Outcome, Stage, Whole
from pipeline.stages.models._learning import Given
from pipeline.stages.models._supervised import Supervised
from pipeline.stages.models._training_rows import in_key_order
from pipeline.tables.part import Part, Schema, concat_parts
from pipeline.tables.session import Session
from pipeline.tables.table import Fitted, Table


def spelled(model: Supervised) -> dict[str, Any]:
    """A model as its fingerprint sees it."""
    return {"use": model.name, "version": model.version, **model.model_dump()}


class Spelled:
    """Marks a parameter that is a stage itself: in Python an instance, in the editor's schema a mapping with `use`."""

    def __get_pydantic_core_schema__(self, kind: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """An instance, which was validated where it was made."""
        return core_schema.is_instance_schema(kind, serialization=core_schema.plain_serializer_function_ser_schema(spelled))

    def __get_pydantic_json_schema__(self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """A mapping with `use`; what else it has is the stage's own."""
        use = {"type": "string", "description": "The stage that learns, by its name."}
        return {"type": "object", "properties": {"use": use}, "required": ["use"], "additionalProperties": True}


Model = Annotated[Supervised, Spelled()]
"""A stage that learns a target, given as `{use: NAME, target: ..., ...}`: its parameters are checked like those of any stage of the job."""


class AroundModel(Whole):
    """A stage that runs another one, which learns a target: `model`, whose files and preparations are its own."""

    roles = ("rows",)

    model: Model = Field(description="The stage that learns, with its parameters: {use: NAME, target: ..., ...}.")

    def opened(self, stage_class: Callable[[str], type[Stage]]) -> Self:
        """The stage with its model opened."""
        return self.model_copy(update={"model": self.model.opened(stage_class)})

    def files(self) -> Sequence[str]:
        """The model's."""
        return self.model.files()

    def prepare(self, *, lean: bool = False) -> None:
        """What the model prepares."""
        self.model.prepare(lean=lean)


def with_values(model: Supervised, values: Mapping[str, Any]) -> Supervised:
    """The model with other values of some parameters; `parameters.gamma` is one of a mapping.

    Raises StageError, with the parameter as its key, for a value that it does not take.
    """
    given = model.model_dump()
    for name, value in values.items():
        field, _, inner = name.partition(".")
        given[field] = {**given[field], inner: value} if inner else value
    try:
        made = type(model).model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = next((name for name in values if name.partition(".")[0] in first["loc"]), next(iter(values)))
        raise StageError(f"{model.name} does not take {values[name]!r}: {first['msg']}", key=name) from error
    fields = {name.partition(".")[0] for name in values}
    return model.model_copy(update={name: getattr(made, name) for name in fields})


@dataclass(frozen=True)
class Alone:
    """What a model needs to run inside of one task, as it would by itself: its name, seed and device, and the schema of its rows."""

    name: str
    schema: Schema
    seed: int
    backend: Backend
    threads: int
    lean: bool

    @staticmethod
    def of(rows: Table, context: Context, at_once: int) -> Alone:
        """For so many tasks at once: they share the threads that there are, and each has one at least."""
        assert rows.schema is not None
        session = context.session
        threads = max(1, session.threads * session.workers // max(1, at_once))
        return Alone(context.name, rows.schema, context.seed, session.backend, min(threads, session.threads), session.lean)

    def run(
        self, model: Supervised, parts: Sequence[Part], axes: Sequence[Part], fitted: Sequence[Fitted], asked: str | None = None
    ) -> Outcome:
        """What the model gives, all of it as values, from rows that are there; where one split is `asked`, of that one at least."""
        session = Session()
        session.backend, session.threads, session.lean = self.backend, self.threads, self.lean
        pairs = zip(self.schema.arrays, axes, strict=True)
        labels = {array: Table.of(session, self.name, [axis], schema=Schema(axis.frame.schema)) for array, axis in pairs}
        rows = Table.of(session, self.name, parts, schema=self.schema, axes=labels, fitted=tuple(fitted))
        return model.run({"rows": rows}, Context(self.name, self.seed, session, asked=asked))


def shared(rows: Table, model: Supervised) -> Given:
    """The rows as every such task takes them: computed, and put in the order of the model's key, once."""
    assert rows.schema is not None
    whole = rows.session.submit(_ordered, rows.futures(), model, stage=rows.stage)
    return Given.of(rows, tuple(rows.schema.arrays), [whole])


def _ordered(parts: Sequence[Part], model: Supervised) -> Part:
    return in_key_order(model, concat_parts(parts))
