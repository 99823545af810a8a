"""What a kind of cluster is: a frozen value, its keys, that can be checked and opened. One file a kind, named like it.

A job's `cluster` is one of them by its `kind`. A new kind is a file of this folder and its test, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from pipeline.backend.devices import Backend

Size = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)? ?([kKMGT]i?)?B$", title="size such as 8GB")]


class ClusterSpec(BaseModel):
    """What a job says of where it runs, with the keys of one kind: `kind` is its name, in the subclass a literal and its own default."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # of many kinds a job has one

    rank: ClassVar[int] = 100  # its place where kinds are listed
    implied_by: ClassVar[frozenset[str]] = frozenset()  # keys that mean this kind where a job names none
    ignores: ClassVar[frozenset[str]] = frozenset()  # keys of other kinds that may stand in a job and make no difference to this one

    kind: str
    dashboard: bool = Field(True, description="Whether Dask's dashboard is served (on 127.0.0.1).")

    def for_backend(self, backend: Backend) -> ClusterKind:
        """The kind that is meant, once the backend is known."""
        raise NotImplementedError(f"{type(self).__name__} has no for_backend")

    @classmethod
    def of_text(cls, text: str) -> dict[str, Any] | None:
        """The keys that a text stands for, as the kind's name does; None where it is nothing to this kind."""
        return {"kind": text} if text == cls.model_fields["kind"].default else None

    @classmethod
    def refusal(cls, owners: Mapping[str, str]) -> str:
        """What is said of keys that this kind has not, each with the kinds that have it."""
        groups: dict[str, list[str]] = {}
        for key, names in owners.items():
            groups.setdefault(names, []).append(key)
        meant = "; ".join(f"{', '.join(keys)} is for kind: {names}" for names, keys in groups.items())
        return f"{meant}, and this is kind: {cls.model_fields['kind'].default}"


class ClusterKind(ClusterSpec):
    """A kind that can be opened."""

    elsewhere: ClassVar[bool] = False  # workers are on other machines: their GPUs are not ours to count, nor is their dashboard at our door
    shares_our_folder: ClassVar[bool] = True  # a relative path means to its workers what it means to us
    lean: ClassVar[bool] = False  # its processes may go without what only a notebook's user would miss of a library

    @property
    def in_this_process(self) -> bool:
        """Whether tasks run in this process, where what they will want can be imported meanwhile."""
        return False

    def for_backend(self, backend: Backend) -> ClusterKind:
        """Itself."""
        return self

    def memory(self, backend: Backend) -> int | None:
        """Bytes that a worker may use for tables, where all share a disk of this machine for what is more; None where they do not."""
        return None

    def commands(self) -> list[str]:
        """The keys given by which whoever wrote the job has commands of theirs run: they are used only where the user allows code."""
        return []

    def check(self) -> None:
        """Raise PlaceError for what can be known of a cluster that cannot be had, before anything is started or asked."""

    def dashboard_of(self, client: Any, port: int) -> str:
        """Where the dashboard is, of a cluster elsewhere."""
        return str(client.dashboard_link)

    def open(self, backend: Backend) -> AbstractContextManager[Any]:
        """A client of the cluster, which is there until the end of the block. Raises PlaceError where it cannot be had.

        What this process started is closed at the end, and what it found running is left so.
        """
        raise NotImplementedError(f"{type(self).__name__} has no open")
