"""The command line that serves a published model: python -m pipeline.serve RUN_OR_RESULTS_FOLDER.

Exit codes: 0 ended by SIGTERM or Ctrl-C, when the requests under way were answered; 2 what was asked for cannot be served.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError, PlaceError

if TYPE_CHECKING:
    from pipeline.serving.app import Limits
    from pipeline.serving.served import Served

GRACE_S = 30  # for requests under way when the server is to end


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    options = argparse.ArgumentParser(prog="python -m pipeline.serve", description="Answer predictions of a published model over HTTP.")
    options.add_argument("place", metavar="RUN_OR_RESULTS_FOLDER", help="a run, or a results folder: its champion, else its current run")
    options.add_argument("--model", metavar="NAME", help="which model, where the run has several")
    options.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1: this machine alone)")
    options.add_argument("--port", type=int, default=8000, help="the port; 0 for a free one")
    options.add_argument("--backend", choices=("auto", "cpu", "gpu"), default="cpu", help="where the model predicts")
    options.add_argument("--body-mb", type=_at_least_one, default=32, metavar="N", help="most MB of a request's body")
    options.add_argument("--batch-rows", type=_at_least_one, default=16_384, metavar="N", help="most rows that are predicted at once")
    options.add_argument(
        "--waiting-rows", type=_at_least_one, default=262_144, metavar="N", help="rows that may wait; more are refused (503)"
    )
    return options


def need_serving() -> None:
    """Raise PlaceError, with what to install, where the libraries of the server are not installed."""
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise PlaceError(f"{name} is not installed. Install it with: pip install '.[serve]'")


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        need_serving()
        _serve(options)
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _serve(options: argparse.Namespace) -> None:
    from pipeline.backend.devices import choose_backend
    from pipeline.serving.app import Limits
    from pipeline.serving.place import model_path
    from pipeline.serving.served import Served

    path = model_path(options.place, options.model)
    served = Served(path, choose_backend(options.backend))
    limits = Limits(options.body_mb << 20, options.batch_rows, options.waiting_rows)
    with _listening(options.host, options.port) as listener:
        _run(served, limits, listener)


def _run(served: Served, limits: Limits, listener: socket.socket) -> None:
    """Answer at a socket until a signal says to end."""
    import uvicorn

    from pipeline.serving.app import make_app

    config = uvicorn.Config(make_app(served, limits), log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_S)
    server = uvicorn.Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the server has its own handlers while it runs, and raises the signal anew when it is done
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"{served.published.path}", f"http://{shown}:{port}  POST /predict  GET /health /model /metrics", sep="\n", flush=True)
    server.run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises PlaceError where it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise PlaceError(f"{host}:{port} cannot be listened at ({error}). Choose another --port, or --port 0 for a free one.") from error


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
