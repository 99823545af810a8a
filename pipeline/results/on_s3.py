"""Results in a bucket of S3, or of a service that speaks its language: writes that hold only if nobody else has written meanwhile.

A put with If-Match or If-None-Match is done by the service in one step or not at all, so of two runs on one place none undoes what the
other published, whatever became of their leases (lease.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from pipeline.files import ask
from pipeline.results.at_url import Store
from pipeline.results.lease import Lease, take_lease
from pipeline.results.lock import ChangedError

SCHEMES = ("s3", "s3a")
TRIES = 5  # of a put that the service could not decide on, since another one was under way


@dataclass(frozen=True)
class Seen:
    """A file as it was at one moment: its content, its tag, and its age in seconds by the service's own clock."""

    content: bytes
    tag: str
    age_s: float


class S3Store(Store):
    """A folder of a bucket."""

    keeps: ClassVar[bool] = True
    lockless: ClassVar[str] = "this service writes whatever the condition (If-Match, If-None-Match)"

    def lock(self) -> Lease | None:
        """Take the lease `lock`; None where the service takes no conditions. Raises PlaceError where a living run holds it."""
        return take_lease(self, "lock")

    def make(self, name: str) -> None:
        """Nothing: a bucket has no folders, and one that is not there is not made by a name that was mistyped."""

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return bool(self.tag(name))

    def tag(self, name: str) -> str:
        """The ETag; '' where there is no such file."""
        try:
            return str(self._call("head_object", name)["ETag"])
        except FileNotFoundError:
            return ""

    def look(self, name: str) -> Seen | None:
        """A file, all of one moment; None where there is none."""
        from fsspec.asyn import sync

        try:
            found: Seen = ask(sync, self.fs.loop, self._seen, name)
        except FileNotFoundError:
            return None
        return found

    async def _seen(self, name: str) -> Seen:
        bucket, key, _ = self.fs.split_path(self._at(name))
        answer = await self.fs._call_s3("get_object", Bucket=bucket, Key=key)
        now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
        return Seen(await answer["Body"].read(), str(answer["ETag"]), (now - answer["LastModified"]).total_seconds())

    def replace(self, name: str, data: bytes, tag: str) -> str:
        """Put it if it has that tag; returns its new one. Raises ChangedError where it has another, and is not this very content.

        It may be: where the answer to a put was lost, its repetition finds what the first one wrote.
        """
        for _ in range(TRIES):
            try:
                return self.put(name, data, tag)
            except ChangedError:
                found = self.look(name)
                if found is not None and found.content == data:
                    return found.tag
                if (found.tag if found else "") != tag:
                    raise
        raise ChangedError(f"{self.path(name)} is being written by another run")

    def put(self, name: str, data: bytes, tag: str) -> str:
        """Put it if it has that tag ('': if there is none); returns its new one. Raises ChangedError where the service does not."""
        condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
        try:
            answer = self._call("put_object", name, Body=data, **condition)
        except OSError as error:
            if _is_unmet(error) or (tag and isinstance(error, FileNotFoundError)):
                raise ChangedError(f"{self.path(name)} was written by another run meanwhile") from error
            raise
        self.fs.invalidate_cache(self._at(name))
        return str(answer["ETag"])

    def _call(self, method: str, name: str, **options: Any) -> Any:
        bucket, key, _ = self.fs.split_path(self._at(name))
        return ask(self.fs.call_s3, method, Bucket=bucket, Key=key, **options)


def _is_unmet(error: OSError) -> bool:
    """Whether the service refused a put for its condition (412), or for another one that was under way (409)."""
    cause: Any = error.__cause__
    told = getattr(cause, "response", {}).get("ResponseMetadata", {})
    return told.get("HTTPStatusCode") in (409, 412)
