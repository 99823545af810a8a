"""Draws the figures of docs/scaling.md and writes its tables, from a result file of benchmarks/scaling.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pipeline.plan.curve import Curve
from pipeline.report.svg import Panel

BEGIN, END = "<!-- measured: written by benchmarks/scaling.py -->\n", "<!-- end of what is measured -->\n"
TITLES = {"loans": "the loans job", "scan": "a linear scan", "traffic": "the traffic job"}
ROWS = {"loans": "loans", "scan": "variants", "traffic": "readings"}
KINDS = {"strong": "four times the data, by workers", "weak": "data that grow with the workers", "data": "one worker, by data"}
STRONG, GOAL = 4, 0.2
STYLE = """\
text{font:12px sans-serif;fill:#444}.axis{fill:none;stroke:#888}.grid{stroke:#ddd}
.line{fill:none;stroke:#2b6cb0;stroke-width:3}.lead{fill:#c05621}.bg{fill:#fff}
"""


def draw(result: dict[str, Any], folder: Path) -> None:
    """Write a figure for each work, and the measured part of the page."""
    for found in result["rows"]:
        (folder / f"scaling-{found['work']}.svg").write_text(figure(found, result["machine"]["cores"]), encoding="utf-8")
    page = folder / "scaling.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(before + BEGIN + measured(result) + END + rest.partition(END)[2], encoding="utf-8")


def figure(found: dict[str, Any], cores: int) -> str:
    """The three kinds of a work beside one another: medians as dots, the curve as a line."""
    about = f"{TITLES[found['work']]}: seconds measured (dots) and fitted (line)"
    panels = [_panel(kind, found["rows"], Curve(**found["curve"]), cores) for kind in KINDS]
    placed = [panel.replace("<svg ", f'<svg x="{310 * number}" y="26" height="240" ', 1) for number, panel in enumerate(panels)]
    width = 310 * len(panels)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 270" width="{width}" role="img" aria-label="{about}">'
    title = f'<rect class="bg" width="{width}" height="270"/><text x="10" y="17">{about}</text>'
    return "".join([head, f"<style>{STYLE}</style>", title, *placed, "</svg>\n"])


def measured(result: dict[str, Any]) -> str:
    """The page's part that is measured."""
    machine = result["machine"]
    head = f"Measured {result['time'][:8]} on {machine['cores']} cores of {machine['cpu']}, load {result['load']} at the end."
    parts = [head, *(_work(found, result["base"]) for found in result["rows"]), _as_a_user(result["as_a_user"])]
    return "\n" + "\n\n".join(parts) + "\n\n"


def of_kind(kind: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that a panel shows: some are of two kinds."""
    if kind == "data":
        return sorted((row for row in rows if row["workers"] == 1), key=lambda row: row["size"])
    shown = [row for row in rows if (row["size"] == row["workers"] if kind == "weak" else row["size"] == STRONG)]
    return sorted(shown, key=lambda row: row["workers"])


def _panel(kind: str, rows: Sequence[dict[str, Any]], curve: Curve, cores: int) -> str:
    shown, along = of_kind(kind, rows), "size" if kind == "data" else "workers"
    most = max(max(median(row["seconds"]), row["fitted"]) for row in rows)
    panel = Panel(300, 240, (0.0, 8.5), (0.0, most * 1.08))
    ends = [(row[along], curve.at(row["size"], min(row["workers"], cores), _processes(row["workers"]))) for row in shown]
    panel.line([x for x, _ in ends], [y for _, y in ends], "fit")
    for row in shown:
        panel.spot(row[along], median(row["seconds"]), f"{median(row['seconds']):.2f} s")
    label = KINDS[kind] + (" (times the least)" if kind == "data" else "")
    return panel.svg(KINDS[kind], (label, "seconds"), [(x, str(x)) for x in (1, 2, 4, 8)])


def _processes(workers: int) -> int:
    return workers if workers > 1 else 0


def _work(found: dict[str, Any], base: dict[str, int]) -> str:
    """A work's figure, its terms, and where adding a worker stops paying."""
    work, curve = found["work"], found["curve"]
    least = f"{base[work]:,} {ROWS[work]}"
    lines = [
        f"### {TITLES[work][0].upper()}{TITLES[work][1:]}",
        f"![{TITLES[work]}: measured and fitted seconds](scaling-{work}.svg)",
        f"D = 1 is {least}. T = {curve['start']:.2f} s + {curve['work']:.2f} s D/p + {curve['process']:.2f} s n. Each configuration is"
        f" foretold by the others' curve within {found['left_out_mean']:.0%} on average, {found['left_out_worst']:.0%} at most.",
        "| data | workers | seconds (median) | fitted |\n|---|---|---|---|\n" + "\n".join(_rows(found["rows"])),
        "| data | least time here at | were there a core for each, at |\n|---|---|---|\n"
        + "\n".join(f"| {row['size']} | {_so_many(row['here'])} | {_so_many(row['with_a_core_each'])} |" for row in found["stops_paying"]),
    ]
    return "\n\n".join(lines)


def _so_many(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers:,} workers"


def _rows(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in sorted(rows, key=lambda row: (row["size"], row["workers"])):
        yield f"| {row['size']} | {row['workers']} | {median(row['seconds']):.2f} | {row['fitted']:.2f} |"


def _as_a_user(rows: Sequence[dict[str, Any]]) -> str:
    """What run.json expected of runs on more and more data, and what they took."""
    lines, off = [], []
    for row in rows:
        expected, actual = row["expected"], row["actual"]
        ratio = actual["of_expected"].get("seconds")
        if ratio is None or expected["by"].startswith("what such stages"):
            by, ratio_text = "rates", f"{ratio:.2f}" if ratio is not None else ""
        else:
            by, ratio_text = expected["by"].partition(",")[0], f"{ratio:.2f}"
            off.append((row["work"], row["size"], abs(ratio - 1)))
        low, high = expected.get("seconds_range", [0, 0])
        told = f"{expected['seconds']:.1f} ({low:.1f} to {high:.1f})" if "seconds" in expected else "unknown"
        memory = actual["of_expected"].get("memory_bytes", "")
        lines.append(f"| {TITLES[row['work']]} | {row['size']} | {by} | {told} | {actual['seconds']:.1f} | {ratio_text} | {memory} |")
    near = [error <= GOAL for _, _, error in off]
    beyond = ", ".join(f"{TITLES[work]} at {size} ({error:.0%})" for work, size, error in off if error > GOAL)
    text = f"By earlier runs, of other sizes than the one that was asked for, {sum(near)} of {len(near)} were foretold within {GOAL:.0%}"
    head = "| work | data | by | expected, s | took, s | took/expected | memory, took/expected |\n|---|---|---|---|---|---|---|\n"
    return "### As a user has it\n\n" + head + "\n".join(lines) + f"\n\n{text}{f'; beyond it: {beyond}' if beyond else ''}."
