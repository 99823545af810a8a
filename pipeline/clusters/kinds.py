"""Which kinds of clusters there are, found by the files of this folder, and what a job writes as one of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from pipeline.clusters.kind import ClusterKind, ClusterSpec
from pipeline.registry import Registry

KINDS = Registry("kind of cluster", "pipeline.clusters", "pipeline.clusters")


@cache
def cluster_kinds() -> dict[str, type[ClusterSpec]]:
    """Every kind by its name: a class of a file of this folder, or of another package's, that says its `kind`."""
    specs = [spec for name in KINDS.modules for spec in KINDS.classes(name, ClusterSpec)]
    named = {spec.model_fields["kind"].default: spec for spec in specs if not spec.model_fields["kind"].is_required()}
    return dict(sorted(named.items(), key=lambda item: (item[1].rank, item[0])))


def kind_at(name: Any) -> type[ClusterSpec] | None:
    """The kind that a file of this folder is named like, found without importing the others; None where there is none."""
    if name not in {own for own, _ in KINDS.own}:
        return None
    found = (spec for spec in KINDS.classes(name, ClusterSpec) if spec.model_fields["kind"].default == name)
    return next(found, None)


def keys_of_text(text: str) -> dict[str, Any]:
    """The keys that a cluster written as one text stands for: cuda, tls://host:8786. Raises ValueError where it is neither."""
    if kind_at(text):
        return {"kind": text}
    kinds = cluster_kinds()
    for spec in kinds.values():
        if (keys := spec.of_text(text)) is not None:
            return keys
    raise ValueError(f"{text!r} is no kind of cluster ({', '.join(kinds)}) and no address such as tls://HOST:8786")


def cluster_keys(value: Any) -> Any:
    """What a job gives as its cluster, as a mapping that says its kind; what is no text and no mapping is unchanged.

    Raises ValueError for a text that means nothing, and for keys of another kind. What is null or makes no difference is dropped.
    """
    value = keys_of_text(value) if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        return value
    if (own := kind_at(kind := value.get("kind", "auto"))) and own.model_fields.keys() >= {*value}:
        return {**{key: what for key, what in value.items() if what is not None}, "kind": kind}
    kinds = cluster_kinds()
    given = {key for key, what in value.items() if what is not None}
    if kind == "auto":
        kind = next((name for name, spec in kinds.items() if given & spec.implied_by), kind)
    named = {**value, "kind": kind}
    if not isinstance(kind, str) or kind not in kinds:
        return named
    others = {key for spec in kinds.values() for key in spec.model_fields} - set(kinds[kind].model_fields)
    if wrong := sorted(given & others - kinds[kind].ignores):
        raise ValueError(kinds[kind].refusal({key: _owners(key) for key in wrong}))
    return {key: what for key, what in named.items() if key not in others}


def _owners(key: str) -> str:
    """The kinds that have a key, in words."""
    return " or ".join(name for name, spec in cluster_kinds().items() if issubclass(spec, ClusterKind) and key in spec.model_fields)


class _OneOfKinds:
    """The same, but that only the kind which is meant is imported, where a file has its name."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_validated)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(_any_kind().core_schema)


def _validated(value: Any) -> ClusterSpec:
    """A cluster of what a job gives, or of one that is there. Raises ValueError for what is none, with each problem's place."""
    keys = cluster_keys(value)
    own = kind_at(keys.get("kind")) if isinstance(keys, Mapping) else None
    return own.model_validate(keys) if own else _any_kind().validate_python(value)


class _EveryKind:
    """Has Pydantic take a cluster of any kind, told apart by `kind`."""

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kinds = {name: handler.generate_schema(spec) for name, spec in cluster_kinds().items()}
        return core_schema.no_info_before_validator_function(cluster_keys, core_schema.tagged_union_schema(kinds, "kind"))


@cache
def _any_kind() -> TypeAdapter[ClusterSpec]:
    return TypeAdapter(Annotated[ClusterSpec, _EveryKind()])


AnyCluster = Annotated[ClusterSpec, _OneOfKinds()]
