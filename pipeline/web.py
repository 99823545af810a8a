"""Files of HTTP servers: what they are known by, and their bytes, by ranges where the server gives these.

What fails is an OSError in a line, and a FileNotFoundError where there is no such file. A server that is busy or breaks off is asked again,
one that does not answer in time is given up. Proxies are those that the environment names.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import time
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib import request
from urllib.error import HTTPError, URLError

TIMEOUT_S = 30.0  # until a server is reached, and between two pieces of what it sends
TRIES, PAUSE_S = 4, 0.3  # the first pause; each is twice the one before
BUSY = (429, 500, 502, 503, 504)
GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
BLOCK = 1 << 20


@dataclass(frozen=True)
class Answer:
    """A server's answer: its status, the whole file's bytes where it tells them, what changes with the file ('' for none), the content."""

    status: int
    size: int | None
    tag: str
    content: bytes


def is_web(path: object) -> bool:
    """Whether a path is a URL of an HTTP server."""
    return str(path).startswith(("http://", "https://"))


def known(url: str) -> tuple[int, str]:
    """Bytes of a file, and what changes with it: its ETag, when it was written, or a digest of all of it where the server tells neither."""
    for method, headers in (("HEAD", dict[str, str]()), ("GET", {"Range": "bytes=0-0"})):
        answer = _answer(method, url, headers)
        if answer.status < HTTPStatus.BAD_REQUEST and answer.size is not None and answer.tag:
            return answer.size, answer.tag
    content = answer.content if answer.status == HTTPStatus.OK else _answer("GET", url, {}).content
    return len(content), hashlib.sha256(content).hexdigest()


def opened(url: str) -> io.BufferedIOBase:
    """A file, to be read and sought in; one of a server without ranges is read at once."""
    first = _answer("GET", url, {"Range": f"bytes=0-{BLOCK - 1}"})
    if first.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # of no bytes
        return io.BytesIO()
    if first.status != HTTPStatus.PARTIAL_CONTENT:
        return io.BytesIO(first.content)
    if first.size is None:
        return io.BytesIO(_answer("GET", url, {}).content)
    return io.BufferedReader(_Ranged(url, first), BLOCK)


class _Ranged(io.RawIOBase):
    """A file whose bytes are asked for as they are needed; the first ones are there."""

    def __init__(self, url: str, first: Answer) -> None:
        self.url, self.size, self.at, self.first = url, first.size or 0, 0, first.content
        self.same = {"If-Match": first.tag} if first.tag.startswith('"') else {}

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The next byte."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte, counted from the beginning, from here, or from the end."""
        self.at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence])
        return self.at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes, as many as there are and as the buffer holds. Raises OSError where it is another file by now."""
        view = memoryview(buffer).cast("B")
        found = self.first[self.at : self.at + len(view)] or self._next(min(self.at + len(view), self.size))
        view[: len(found)] = found
        self.at += len(found)
        return len(found)

    def readall(self) -> bytes:
        """Read all that is left, in one request."""
        begun = self.first[self.at :]
        self.at += len(begun)
        found = begun + self._next(self.size)
        self.at = max(self.at, self.size)
        return found

    def _next(self, end: int) -> bytes:
        if end <= self.at:
            return b""
        found = _answer("GET", self.url, {"Range": f"bytes={self.at}-{end - 1}", **self.same}).content
        if len(found) != end - self.at:
            raise OSError(f"the server sent {len(found)} bytes where {end - self.at} were asked for: was the file written anew?")
        return found


def _answer(method: str, url: str, headers: dict[str, str]) -> Answer:
    """A server's answer. Raises FileNotFoundError where there is no such file, OSError where it is of no use."""
    for number in range(TRIES):
        is_last = number == TRIES - 1
        try:
            answer = _asked(method, url, headers)
        except (HTTPException, URLError, ConnectionError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if is_last or isinstance(reason, TimeoutError):
                raise OSError(_line(reason)) from error
        else:
            if is_last or answer.status not in BUSY:
                return _checked(answer, url, is_head=method == "HEAD")
        time.sleep(PAUSE_S * 2**number)
    raise AssertionError("the last try returns or raises")


def _checked(answer: Answer, url: str, *, is_head: bool) -> Answer:
    """An answer that is of use: what a server that does not know HEAD says of it is no matter."""
    status = answer.status
    if status in GONE:
        raise FileNotFoundError(f"{url}: the server has no such file")
    if status >= HTTPStatus.BAD_REQUEST and not is_head and status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        known_words = {one.value: one.phrase for one in HTTPStatus}
        changed = ": the file was written anew while it was read" if status == HTTPStatus.PRECONDITION_FAILED else ""
        raise OSError(f"the server answers {status} {known_words.get(status, '')}".rstrip() + changed)
    return answer


def _asked(method: str, url: str, headers: dict[str, str]) -> Answer:
    """One request, whatever is answered. Raises URLError, ConnectionError or HTTPException where nothing is, or not all of it."""
    asking = request.Request(url, headers={"Accept-Encoding": "identity", **headers}, method=method)
    try:
        with _opener().open(asking, timeout=TIMEOUT_S) as found:
            return _read(found.status, found.headers, found.read(), url)
    except HTTPError as refusal:
        with refusal:
            return Answer(refusal.code, None, "", b"")
    except TimeoutError as error:
        raise URLError(TimeoutError(f"no answer within {TIMEOUT_S:g} s")) from error


def _read(status: int, headers: Message, content: bytes, url: str) -> Answer:
    tag = str(headers.get("ETag") or headers.get("Last-Modified") or "")
    if headers.get("Content-Encoding", "identity").lower() in ("gzip", "x-gzip") and not url.partition("?")[0].endswith(".gz"):
        return Answer(status, None, tag, gzip.decompress(content) if content else content)  # though it was asked not to
    is_part = status == HTTPStatus.PARTIAL_CONTENT
    told = headers.get("Content-Range", "").rpartition("/")[2] if is_part else headers.get("Content-Length", "")
    return Answer(status, int(told) if told.isdigit() else None, tag, content)


@lru_cache(maxsize=1)
def _opener() -> request.OpenerDirector:
    """What follows redirects from HTTP to HTTP alone, and takes the proxies of the environment."""
    opener = request.OpenerDirector()
    kinds = (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, request.HTTPDefaultErrorHandler)
    for kind in (*kinds, request.HTTPRedirectHandler, request.HTTPErrorProcessor, request.UnknownHandler):
        opener.add_handler(kind())
    return opener


def _line(error: object) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
