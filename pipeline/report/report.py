"""The report page of a run: one self-contained HTML file with figures, top hits, counts, timings and the job as it ran."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import polars as pl

from pipeline.report.finding import Evidence, sections
from pipeline.report.pieces import Grid, Note, Section, Tally, bytes_text, number_text, seconds_text
from pipeline.results.manifest import Entry
from pipeline.running.execute import Executed
from pipeline.running.record import RunRecord
from pipeline.tables.columns import VOCABULARY

WORDS = {
    "variants_in": "variants read", "variants_out": "variants kept", "people_in": "people read", "people_out": "people kept",
    "low_call_rate": "call rate too low", "low_maf": "allele too rare", "out_of_hardy_weinberg": "out of Hardy-Weinberg equilibrium",
    "extreme_inbreeding": "inbreeding beyond its limit", "duplicate_variants": "at the place and with the alleles of another",
    "in_linkage": "in linkage with one that is kept", "related": "related to someone who is kept",
    "not_varying": "without variation", "unplaced": "without a place",
    "related_pairs": "pairs above the limit", "pairs_without_kinship": "pairs without a kinship",
    "records": "records", "multi_allelic": "with several ALT alleles", "monomorphic": "without an ALT allele",
    "symbolic": "symbolic alleles", "without_gt": "without genotypes", "half_missing_calls": "half-missing calls (taken as missing)",
    "haploid_calls": "haploid calls", "without_ds": "without dosages",
    "matched": "rows with a partner", "multiplied": "more rows by several partners", "lost": "rows without a partner",
    "variants_used": "variants used", "people": "people", "features": "features", "trees_used": "trees used",
    "unmatched": "without a partner", "weights_unmatched": "weights without a variant", "other_alleles": "with other alleles",
}  # fmt: skip
"""Plain words for the names of counts."""

NEVER_LEFT_OUT = ("lost", "multiplied", "low_call_rate", "low_maf", "out_of_hardy_weinberg", "in_linkage", "related")
"""Counts that are shown where they are 0, too."""

ASIDE = ("duplicate_variants", "related_pairs", "pairs_without_kinship")
"""Counts of what was noticed and kept: no step of a funnel."""


def write_report(record: RunRecord, executed: Executed, folder: str) -> str:
    """The page as HTML text. `folder` is the run's folder or URL, which the paths of `executed.entries` are relative to."""
    document = record.document()
    notes = list[str]()
    shown = list(sections(Evidence(_opened(executed.entries, folder, notes), executed.metrics)))
    shown += (section for section in _counts(record) if section.blocks)
    shown += [_stages(document), _outputs(executed.entries)]
    highlights = [(seconds_text(document["seconds"]), "wall time"), *(entry for section in shown for entry in section.highlights)]
    job = record.plan.job
    page: str = _template().render(
        title=job.raw.get("title") or job.name,  # as the record has them, secrets masked
        job=job.name,
        description=job.raw.get("description"),
        record=document,
        highlights=highlights,
        rows={name: number_text(sum(entry.rows or 0 for entry in entries)) for name, entries in _by_output(executed.entries).items()},
        sections=shown,
        warnings=[*document["warnings"], *notes],
        about=_about(document),
        source=_yaml(document["job"]),
    )
    return page


def _template() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, auto_reload=False
    )
    return environment.get_template("report.html.j2")


def _by_output(entries: list[Entry]) -> dict[str, list[Entry]]:
    """Tables' files by output: the first piece of their paths."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.path.split("/")[0], []).append(entry)
    return found


def _opened(entries: list[Entry], folder: str, notes: list[str]) -> dict[str, pl.LazyFrame]:
    """Every output written as Parquet, CSV or GWAS-SSF, to be read; what cannot be read gets a note."""
    opened = {}
    for name, files in _by_output(entries).items():
        tables = [entry.path for entry in files if not entry.path.endswith(".gz-meta.yaml")]
        paths = sorted(f"{folder.rstrip('/')}/{path}" for path in tables)
        if paths and all(path.endswith((".parquet", ".csv", ".tsv.gz")) for path in paths):
            try:
                opened[name] = pl.concat([_read(path, name) for path in paths])
                opened[name].collect_schema()
            except (OSError, pl.exceptions.PolarsError) as error:
                notes.append(f"output {name} could not be read for this page: {error}")
                del opened[name]
    return opened


def _read(path: str, output: str) -> pl.LazyFrame:
    source: Any = path
    if "://" in path:
        import fsspec

        with fsspec.open(path, "rb") as file:
            source = io.BytesIO(file.read())
    if path.endswith(".parquet"):
        return pl.scan_parquet(source)
    # A table's types are known by its columns' names where they are in the vocabulary; chromosome 1 is text.
    known = {name: column.dtype for name, column in VOCABULARY.items()}
    if path.endswith(".csv"):
        return pl.scan_csv(source, schema_overrides=known, infer_schema_length=None)
    rows = pl.scan_csv(source, separator="\t", null_values="#NA", schema_overrides=known, quote_char=None, infer_schema_length=None)
    trait = unquote(PurePosixPath(path).name.removesuffix(".tsv.gz").removeprefix(output).removeprefix("."))
    named = [pl.coalesce("rsid", "variant_id").alias("variant_id")] if "rsid" in rows.collect_schema().names() else []
    return rows.with_columns(*named, *([pl.lit(trait).alias("trait")] if trait else []))


def _counts(record: RunRecord) -> tuple[Section, Section]:
    """What the stages counted: funnels where something went in and came out, in the order of the stages, and tables of the rest."""
    funnels, others = Section("Quality control"), Section("Counts")
    for name, account in record.accounts.items():
        counts = {what: count for what, count in account.counts.items() if count or what in NEVER_LEFT_OUT}
        title = f"{name} ({account.use})" if account.use != name else name
        unit = next((what.removesuffix("_in") for what in account.counts if what.endswith("_in")), None)
        steps = _funnel(counts, unit) if unit else []
        plain = [(_words(what), number_text(count)) for what, count in counts.items() if not steps or what in ASIDE]
        if steps or plain:
            (funnels if steps else others).blocks.append(Tally(title, [*steps, *plain]))
    return funnels, others


def _funnel(counts: Mapping[str, int], unit: str) -> list[tuple[str, str] | tuple[str, str, float, float]]:
    """The steps from what went in to what came out; none where the counts between do not add up to the difference."""
    start, end = counts.get(f"{unit}_in", 0), counts.get(f"{unit}_out", 0)
    fell = {what: count for what, count in counts.items() if what not in (f"{unit}_in", f"{unit}_out", *ASIDE)}
    if start <= 0 or start - sum(fell.values()) != end:
        return []
    steps, left = list[tuple[str, str] | tuple[str, str, float, float]](), start
    steps.append((_words(f"{unit}_in"), number_text(start), 1.0, 0.0))
    for what, count in fell.items():
        left -= count
        steps.append((_words(what), f"−{count:,}", left / start, count / start))
    return [*steps, (_words(f"{unit}_out"), number_text(end), end / start, 0.0)]


def _words(name: str) -> str:
    unit, _, of = name.partition("_")
    rest = f"{unit}, {of}" if unit in ("people", "rows", "tested", "kept") and of else name.replace("_", " ")
    return WORDS.get(name, rest)


def _stages(document: Mapping[str, Any]) -> Section:
    """Inputs, stages and other tables with rows, parts, bytes and seconds."""
    accounts = [(name, a) for group in ("inputs", "stages", "tables") for name, a in document[group].items()]
    most = max((account["seconds"] for _, account in accounts), default=0) or 1
    rows = []
    for name, a in accounts:
        rows_in = a.get("rows_in")
        several = isinstance(rows_in, list) and any(n is not None for n in rows_in)
        taken = ", ".join(number_text(n) or "–" for n in rows_in) if several else "" if isinstance(rows_in, list) else number_text(rows_in)
        out = number_text(a["rows"]) if a["rows"] is not None else "fused into its reader" if name in document["stages"] else ""
        time = seconds_text(a["seconds"]) if a["seconds"] else ""
        rows.append((name, a["use"], taken, out, number_text(a["parts"]), bytes_text(a["bytes"]), time, a["seconds"] / most))
    caption = "Seconds are those of all tasks of a stage, which run side by side: together they can exceed the wall time."
    return Section(
        "Stages", [Grid(("table", "made by", "rows in", "rows out", "parts", "size", "task time", ""), "llrrrrrb", rows, caption)]
    )


def _outputs(entries: list[Entry]) -> Section:
    rows = [
        (name, number_text(sum(entry.rows or 0 for entry in files)), str(len(files)), ", ".join(sorted({_suffix(e) for e in files})))
        for name, files in _by_output(entries).items()
    ]
    table = Grid(("output", "rows", "files", "format"), "lrrl", rows)
    return Section("Outputs", [table if rows else Note("The job has no outputs.")])


def _suffix(entry: Entry) -> str:
    return PurePosixPath(entry.path).suffix.lstrip(".") or "?"


def _about(document: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Tables of the page's foot: the machine, the cluster and the versions."""
    for title in ("machine", "cluster", "versions"):
        yield title, [(name.replace("_", " "), _listed(value)) for name, value in document[title].items()]


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _yaml(job: Mapping[str, Any]) -> str:
    """The job as YAML text, plain values alone."""
    from ruamel.yaml import YAML

    text, writer = io.StringIO(), YAML(typ="rt")
    writer.width, writer.default_flow_style = 110, None
    writer.dump(json.loads(json.dumps(job, default=str)), text)
    return text.getvalue()
