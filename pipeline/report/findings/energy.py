"""What a run used: power over time, and joules a stage. Nothing where nothing was measured; run.json says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.report.finding import Evidence, Finding
from pipeline.report.pieces import Figure, Grid, Section, bytes_text, number_text
from pipeline.report.svg import Panel

NAMES = {"gpu": "GPUs", "cpu": "processors"}
STYLES = {"gpu": "s0", "cpu": "s1"}


class Energy(Finding, name="energy"):
    """A plot of power over time, and a table of joules by stage."""

    place = 950

    def sections(self, evidence: Evidence) -> Iterator[Section]:
        """One section, where a sensor said something."""
        energy: Mapping[str, Any] = evidence.record.get("energy", {})
        if "series" not in energy:
            return
        kinds = [kind for kind in NAMES if f"{kind}_watts" in energy["series"]]
        measured = " and ".join(NAMES[kind] for kind in kinds)
        section = Section("Energy", highlights=[(f"{energy['joules']:,.0f} J", f"energy of {measured}")])
        legend = [(STYLES[kind], NAMES[kind]) for kind in kinds]
        caption = f"Power over time, at most {energy['most_watts']:,.0f} W together."
        section.blocks.append(Figure(_power(energy["series"], kinds), caption, legend, size="medium"))
        section.blocks.append(_stages(energy, kinds))
        if gpus := energy.get("gpus", []):
            section.blocks.append(_gpus(gpus))
        yield section


def _power(series: Mapping[str, list[float]], kinds: list[str]) -> str:
    """Watts against seconds, a line a kind of sensor."""
    seconds, drawn = series["seconds"], {kind: series[f"{kind}_watts"] for kind in kinds}
    most = max(max(watts) for watts in drawn.values())
    panel = Panel(500, 200, (0.0, max(*seconds, 1e-3)), (0.0, 1.08 * max(most, 1e-3)), left=56)
    for kind, watts in drawn.items():
        panel.line(seconds, watts, STYLES[kind])
    return panel.svg("Power in watts over the seconds of the run", ("Seconds", "Watts"))


def _stages(energy: Mapping[str, Any], kinds: list[str]) -> Grid:
    """Joules by stage, the most first, and of the time between tasks."""
    used = sorted(energy["stages"].items(), key=lambda item: -item[1]["joules"])
    between = {f"{kind}_joules": energy["between_tasks"][kind] for kind in kinds}
    every = [*used, ("between tasks", {**between, "joules": sum(between.values()), "joules_per_million_rows": None})]
    whole = energy["joules"] or 1.0
    rows = [
        (name, *(_joules(of[f"{kind}_joules"]) for kind in kinds), _joules(of["joules_per_million_rows"]), of["joules"] / whole)
        for name, of in every
    ]
    head = ("stage", *(f"{NAMES[kind]}, J" for kind in kinds), "J a million rows", "")
    missing = "; ".join(f"{NAMES[kind]}: {energy[f'{kind}_power']}" for kind in NAMES if f"{kind}_power" in energy)
    caption = "A moment's energy is shared by the tasks that ran in it, by their seconds." + (f" {missing}." if missing else "")
    return Grid(head, "l" + "r" * (len(kinds) + 1) + "b", rows, caption)


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> Grid:
    """What each GPU used and had in use."""
    rows = [
        (str(number), _joules(gpu["joules"]), f"{gpu['most_watts']:,.0f} W", bytes_text(gpu["most_bytes"]), f"{gpu['mean_busy']:.0%}")
        for number, gpu in enumerate(gpus)
    ]
    return Grid(("GPU", "J", "most power", "most memory", "busy"), "lrrrr", rows, "As NVML says it; memory is that of all programs.")


def _joules(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}" if value < 100 else number_text(round(value))
