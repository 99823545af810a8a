"""An HTTP server on this machine that has what a test gives it, and the manners that a test asks for."""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Site:
    """Files by their paths, how they are served, and what was asked for (method, path, range)."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    manners: set[str] = field(default_factory=set)  # no ranges, no head, no tags, no size, gzip, slow, cut
    answers: list[int] = field(default_factory=list)  # the next ones, whatever is asked
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """Answers by the site."""

    site: Site

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""

    def __getattr__(self, name: str) -> Any:
        """What is done with a method: the same with all."""
        if name in {"do_GET", "do_HEAD"}:
            return self.answer
        raise AttributeError(name)

    def answer(self) -> None:
        """One request."""
        site, path = self.site, self.path.partition("?")[0]
        site.asked.append((self.command, self.path, self.headers.get("Range", "")))
        if "slow" in site.manners:
            site.ended.wait(60)
        if site.answers:
            self.refuse(site.answers.pop(0))
        elif self.command == "HEAD" and "no head" in site.manners:
            self.refuse(405)
        elif path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", path.removeprefix("/moved"))
            self.refuse(0)
        elif path not in site.files:
            self.refuse(404)
        else:
            self.give(site.files[path])

    def refuse(self, status: int) -> None:
        if status:
            self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def give(self, content: bytes) -> None:
        """The file, or a range of it."""
        manners, tag = self.site.manners, f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
        if self.headers.get("If-Match", tag) != tag:
            return self.refuse(412)
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part, whole = content, len(content)
        if found and "no ranges" not in manners:
            low, high = int(found[1]), min(int(found[2]), whole - 1)
            part = content[low : high + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {low}-{high}/{whole}")
        else:
            self.send_response(200)
        if "gzip" in manners:
            part = gzip.compress(part)
            self.send_header("Content-Encoding", "gzip")
        if "no tags" not in manners:
            self.send_header("ETag", tag)
        if "no size" not in manners:
            self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part[: len(part) // 2] if "cut" in manners else part)
        return None


@contextmanager
def web_server() -> Iterator[Site]:
    """A site without files."""
    site = Site("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
