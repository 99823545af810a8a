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
from urllib import request
from urllib.error import HTTPError, URLError

from pipeline.ranges import Ranged

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


def known(url: str) -> tuple[int, str]:
    """Bytes of a file, and what changes with it: its ETag, when it was written, or a digest of all of it where the server tells neither."""
    for method, headers in (("HEAD", dict[str, str]()), ("GET", {"Range": "bytes=0-0"})):
        answer = _answer(method, url, headers)
        if answer.status < HTTPStatus.BAD_REQUEST and answer.size is not None and answer.tag:
            return answer.size, answer.tag
    content = answer.content if answer.status == HTTPStatus.OK else _answer("GET", url, {}).content
    return len(content), hashlib.sha256(content).hexdigest()


def opened(url: str, block: int = BLOCK) -> io.BufferedIOBase:
    """A file, to be read and sought in, `block` bytes at a time at first; one of a server without ranges is read at once."""
    first = _answer("GET", url, {"Range": f"bytes=0-{block - 1}"})
    if first.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # of no bytes
        return io.BytesIO()
    if first.status != HTTPStatus.PARTIAL_CONTENT:
        return io.BytesIO(first.content)
    if first.size is None:
        return io.BytesIO(_answer("GET", url, {}).content)
    same = {"If-Match": first.tag} if first.tag.startswith('"') else {}

    def fetch(start: int, end: int) -> bytes:
        """A range, of the same file as the first one."""
        return _answer("GET", url, {"Range": f"bytes={start}-{end - 1}", **same}, needs_part=True).content

    return io.BufferedReader(Ranged(first.size, fetch, first.content), block)


def lacks(url: str) -> str:
    """What keeps a file from being read piece by piece, in words: its server gives it only whole, or nothing that changes with it."""
    first = _answer("GET", url, {"Range": "bytes=0-0"}, needs_part=True)
    if first.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return ""
    if first.status != HTTPStatus.PARTIAL_CONTENT or first.size is None:
        return "the server gives no ranges: asked for one byte, it sends the whole file"
    return "" if first.tag else "the server tells neither ETag nor Last-Modified, by which a change of the file would be seen"


def _answer(method: str, url: str, headers: dict[str, str], *, needs_part: bool = False) -> Answer:
    """A server's answer, without the content where a part of it is needed and all of it comes.

    Raises FileNotFoundError where there is no such file, OSError where the answer is of no use.
    """
    for number in range(TRIES):
        is_last = number == TRIES - 1
        try:
            answer = _asked(method, url, headers, needs_part=needs_part)
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


def _asked(method: str, url: str, headers: dict[str, str], *, needs_part: bool) -> Answer:
    """One request, whatever is answered. Raises URLError, ConnectionError or HTTPException where nothing is, or not all of it."""
    asking = request.Request(url, headers={"Accept-Encoding": "identity", **headers}, method=method)
    try:
        with _opener().open(asking, timeout=TIMEOUT_S) as found:
            if needs_part and (
                found.status != HTTPStatus.PARTIAL_CONTENT or found.headers.get("Content-Encoding", "identity") != "identity"
            ):
                return Answer(HTTPStatus.OK, None, "", b"")
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
