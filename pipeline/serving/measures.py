"""What a server counts of its work, as text in Prometheus' exposition format (0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000)
PREFIX = "pipeline_serve"


@dataclass
class Histogram:
    """How many values are at most each of `bounds`, their number and their sum."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterator[str]:
        """The series of the histogram; bounds are cumulative."""
        passed = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            passed += count
            yield f'{name}_bucket{{le="{bound}"}} {passed}'
        yield from (f"{name}_sum {self.total:.9g}", f"{name}_count {passed}")


@dataclass
class Measures:
    """Of one server, since it started. Only its own thread of events writes them."""

    requests: dict[int, int] = field(default_factory=dict)
    rows: int = 0
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    batch_rows: Histogram = field(default_factory=lambda: Histogram(SIZES))
    batch_requests: Histogram = field(default_factory=lambda: Histogram(SIZES))

    def answered(self, status: int, rows: int, seconds: float) -> None:
        """Count a request for predictions by its HTTP status, its rows and the time from its arrival to its answer."""
        self.requests[status] = self.requests.get(status, 0) + 1
        self.rows += rows
        self.seconds.add(seconds)

    def batch(self, requests: int, rows: int) -> None:
        """Count a batch that goes to the model."""
        self.batch_requests.add(requests)
        self.batch_rows.add(rows)

    def text(self, rows_waiting: int) -> str:
        """All of them."""
        errors = sum(count for status, count in self.requests.items() if status >= 400)
        requests = [f'{PREFIX}_requests_total{{status="{status}"}} {count}' for status, count in sorted(self.requests.items())]
        parts = [
            *_headed("requests_total", "counter", "Requests for predictions that were answered.", requests),
            *_headed("errors_total", "counter", "Those that got no predictions.", [f"{PREFIX}_errors_total {errors}"]),
            *_headed("rows_total", "counter", "Rows that were predicted.", [f"{PREFIX}_rows_total {self.rows}"]),
            *_headed("rows_waiting", "gauge", "Rows that wait for the model.", [f"{PREFIX}_rows_waiting {rows_waiting}"]),
        ]
        for name, histogram, about in (
            ("request_seconds", self.seconds, "From a request's arrival to its answer."),
            ("batch_rows", self.batch_rows, "Rows that the model predicts at once."),
            ("batch_requests", self.batch_requests, "Requests that are answered together."),
        ):
            parts += _headed(name, "histogram", about, histogram.lines(f"{PREFIX}_{name}"))
        return "\n".join(parts) + "\n"


def _headed(name: str, kind: str, about: str, lines: Iterator[str] | Sequence[str]) -> list[str]:
    return [f"# HELP {PREFIX}_{name} {about}", f"# TYPE {PREFIX}_{name} {kind}", *lines]
