"""Pages of made-up runs, and what a test reads off them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl

from pipeline.format import InputFormat, OutputFormat
from pipeline.formats.csv import CsvOutput
from pipeline.formats.parquet import ParquetOutput
from pipeline.plan.plan import Plan
from pipeline.registry import FORMATS, STAGES, format_class, stage_class
from pipeline.report.report import write_report
from pipeline.results.manifest import Entry
from pipeline.running.executed import Executed
from pipeline.running.record import Account, RunRecord
from pipeline.stage import Stage
from pipeline.tables.part import Schema

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


SCRIPT = (files("pipeline.report") / "page.js").read_text(encoding="utf-8")


class Page(HTMLParser):
    """What a page holds: headings, text, addresses; refuses tags that do not nest, and what would be fetched or run, but the one script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.text = self.script = ""
        self.feed(html)
        self.close()
        assert self.open == []
        assert self.script == SCRIPT
        assert self.tags.count("script") == 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._need_harmless(tag, attrs)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "h2":
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._need_harmless(tag, attrs)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action")]

    @staticmethod
    def _need_harmless(tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """No page has anything that runs but the one script, or that is fetched from elsewhere."""
        assert tag != "script" or not attrs
        assert tag not in {"iframe", "object", "embed", "form", "base", "foreignobject", "link"}
        assert not [name for name, _ in attrs if name.startswith("on")]
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action"):
                assert not re.match(r"\s*(javascript|vbscript|https?|//)", value or "", re.IGNORECASE), value

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings[-1] += data
        if self.open and self.open[-1] == "script":
            self.script += data
        elif self.open and self.open[-1] != "style":
            self.text += data


def record_of(accounts: Mapping[str, Account] | None = None, title: str | None = "A scan") -> RunRecord:
    uses = {account.name: account.use for account in (accounts or {}).values()}
    made = {name: stage_class(use).model_construct() if use in STAGES.modules else Stage() for name, use in uses.items()}
    made = {"passed": Stage(), "model": Stage()} | {name: stage for name, stage in made.items() if uses[name] not in FORMATS.modules}
    stages = [
        SimpleNamespace(spec=SimpleNamespace(name=name, use="some_use", inputs={"rows": "cohort"}, stage=stage))
        for name, stage in made.items()
    ]
    readers = {name: format_class(use, InputFormat).model_construct(path=("a",)) for name, use in uses.items() if use in FORMATS.modules}
    inputs = {name: SimpleNamespace(reader=reader) for name, reader in readers.items()}
    raw = {"job": "genomics", "title": title, "stages": [{"use": "variant_qc", "min_hwe_p": 1e-6}]}
    job = SimpleNamespace(name="genomics", title=title, description=None, raw=raw, inputs=inputs)
    plan = cast(Plan, SimpleNamespace(job=job, backend="cpu", inputs={"cohort": None}, stages=stages, fingerprints={}))
    record = RunRecord("20261121T093012Z-3f2a9c", plan, {"kind": "local", "workers": 1}, datetime(2026, 11, 21, 9, 30, tzinfo=UTC))
    record.accounts = dict(accounts or {})
    record.status, record.finished = "done", datetime(2026, 11, 21, 9, 31, 15, tzinfo=UTC)
    return record


def page_of(folder: Path, outputs: Mapping[str, pl.DataFrame], csv: bool = False, **more: Any) -> str:
    entries = []
    for name, frame in outputs.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        path = f"{name}/part-00000-ab12{'.csv' if csv else '.parquet'}"
        frame.write_csv(folder / path) if csv else frame.write_parquet(folder / path)
        entries.append(Entry(path, frame.height))
    metrics, record = more.pop("metrics", {}), more.pop("record", None) or record_of(**more)
    return report_of(entries, outputs, folder, record, CsvOutput() if csv else ParquetOutput(), metrics)


def report_of(
    entries: list[Entry],
    outputs: Mapping[str, pl.DataFrame],
    folder: Path | str,
    record: RunRecord | None = None,
    writer: OutputFormat | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> str:
    """The page of a run that wrote these files, of outputs that are tables of their names."""
    record, tables = record or record_of(), {name: Schema(frame.schema) for name, frame in outputs.items()}
    written = {
        name: SimpleNamespace(name=name, table=name, columns=None, format="parquet", writer=writer or ParquetOutput()) for name in outputs
    }
    job = SimpleNamespace(**{**vars(record.plan.job), "outputs": written})
    record.plan = cast(Plan, SimpleNamespace(**{**vars(record.plan), "tables": tables, "job": job}))
    return write_report(record, Executed(entries, metrics=dict(metrics or {})), str(folder))


def scan_of(n: int = 2_000, chromosomes: int = 3, seed: int = 1, trait: str = "ldl") -> pl.DataFrame:
    random = np.random.default_rng(seed)
    p = random.uniform(size=n)
    p[::500] = 1e-12
    places = np.sort(random.integers(1, 10_000_000, n))
    return pl.DataFrame(
        {
            "chromosome": [str(i % chromosomes + 1) for i in range(n)],
            "base_pair_location": places,
            "effect_allele": "A",
            "other_allele": "G",
            "beta": random.normal(size=n),
            "standard_error": 0.1,
            "effect_allele_frequency": 0.25,
            "p_value": p,
            "neg_log_10_p_value": -np.log10(p),
            "variant_id": [f"rs{i}" for i in range(n)],
            "n": 1_000,
            "trait": trait,
            "reason": pl.Series([None] * n, dtype=pl.String),
        }
    )


def predictions_of(n: int = 600, seed: int = 2) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, n)
    score = 1 / (1 + np.exp(-(truth - 0.5 + random.normal(size=n))))
    split = np.array(["train", "validation", "test"])[np.arange(n) % 3]
    return pl.DataFrame({"person": np.arange(n), "split": split, "disease": truth, "prediction": score.astype(np.float32)})


def dots_of(svg: str, style: str) -> int:
    """Dots drawn in a style."""
    return sum(path.count("m") for path in re.findall(rf'class="dots {style}" [^>]*d="([^"]*)"', svg))
