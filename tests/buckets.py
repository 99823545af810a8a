"""An S3 server on this machine (moto), whose buckets processes and threads see as they see any service's."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import fsspec

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "made-up-id",
    "AWS_SECRET_ACCESS_KEY": "made-up-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
}


class OneAtATime:
    """The server's requests, one after the other: moto looks at a condition and then writes, which S3 does in one step."""

    def __init__(self, app: Any) -> None:
        self.app, self.lock = app, threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The answer to one request."""
        with self.lock:
            return list(self.app(environ, start_response))


@contextmanager
def s3_server() -> Iterator[str]:
    """A server; the URL of its endpoint."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = OneAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def new_bucket() -> str:
    """The URL of a bucket that nobody else uses."""
    name = f"test-{secrets.token_hex(6)}"
    fsspec.filesystem("s3").mkdir(name)
    return f"s3://{name}"
