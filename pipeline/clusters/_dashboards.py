"""Dask's dashboards, each brought up by the first who asks for it: what draws them takes half a second to import, and few are looked at."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from tornado.web import Application, RequestHandler

OF_SCHEDULERS, OF_WORKERS = "distributed.dashboard.scheduler", "distributed.dashboard.worker"


class _Asked(RequestHandler):
    """Answers the first request that nothing else does: brings the dashboard up, which answers from then on."""

    server: Any
    pages: str

    def initialize(self, server: Any, pages: str) -> None:
        """Called by tornado before each request, with what the handler was made for."""
        self.server, self.pages = server, pages

    async def get(self) -> None:
        """Called by tornado: the same page again, from the dashboard."""
        try:
            module = await asyncio.to_thread(import_module, self.pages)
        except ImportError as error:
            self.set_status(404)
            self.write(f"The dashboard cannot be drawn: {error}. Install it with: pip install bokeh")
            return
        serving = self.server.http_application
        if self.application in serving.applications:  # the first of several who asked at once
            serving.applications.remove(self.application)
            module.connect(serving, self.server.http_server, self.server, prefix="/")
        self.redirect(self.request.uri or "/")


class _OfWorkers:
    """A worker plugin: each worker's own dashboard, as `serve_when_asked` has it."""

    name = "pipeline-dashboards"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Called by Dask on each worker as it joins."""
        serve_when_asked(worker, OF_WORKERS)


def serve_when_asked(server: Any, pages: str) -> None:
    """Have the HTTP server of a scheduler or worker that began without a dashboard bring up the one of a module of Dask's."""
    server.http_application.add_application(Application([(r".*", _Asked, {"server": server, "pages": pages})]))


def serve_workers_when_asked(client: Any) -> None:
    """The same of all workers of a cluster, those that come later too."""
    from distributed import WorkerPlugin

    client.register_plugin(type("OfWorkers", (_OfWorkers, WorkerPlugin), {})())


def without_dashboard(kind: Any) -> Any:
    """A class of Dask's workers, or of their nannies, that begin without a dashboard: LocalCluster would give each one."""

    def begin(worker: Any, *arguments: Any, **options: Any) -> None:
        """As the class, whatever is said of the dashboard."""
        kind.__init__(worker, *arguments, **{**options, "dashboard": False})

    return type(f"Plain{kind.__name__}", (kind,), {"__init__": begin})
