"""What the outputs of a run show, found by the names of their columns, one section a finding."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from pipeline.report.findings_loci import Outputs, clumps, regions
from pipeline.report.findings_people import ancestry, kinship, scores
from pipeline.report.findings_predictions import predictions
from pipeline.report.findings_scan import associations
from pipeline.report.pieces import Grid, Section, headline, number_text
from pipeline.report.scan_data import CHROMOSOME, POSITION

MOST_FEATURES = 20


def sections(outputs: Outputs) -> Iterator[Section]:
    """A section for every output that has something to show: scans and their loci, people, predictions, features."""
    names = {output: {*rows.collect_schema().names()} for output, rows in outputs.items()}

    def having(*columns: str) -> list[str]:
        """Outputs with all of these columns."""
        return [output for output, found in names.items() if {*columns} <= found]

    strengths = {*having("p_value"), *having("neg_log_10_p_value")}
    placed = [output for output in having(CHROMOSOME, POSITION) if output in strengths]
    linked, clumped = having("index_variant_id", "r2"), having("variant_id", "members")
    for output in placed:
        if output not in (*linked, *clumped):
            yield associations(output, outputs[output])
    for output in placed:
        if output in clumped:
            yield clumps(output, outputs[output])
    for output in placed:
        if output in linked:
            yield regions(output, outputs)
    eigenvalues = next((outputs[output] for output in having("component", "eigenvalue")), None)
    for output in having("pc1", "pc2"):
        yield ancestry(output, outputs, eigenvalues)
    for output in having("sample_id_1", "sample_id_2", "kinship"):
        yield kinship(output, outputs[output])
    for output, columns in names.items():
        if {"score_sum", "score_average"} & columns:
            yield scores(output, outputs)
    for output, columns in names.items():
        if "prediction" in columns or sum(name.startswith("prediction_") for name in columns) > 1:
            yield from predictions(output, outputs[output])
    for output in having("feature", "gain"):
        yield importance(output, outputs[output])


def importance(output: str, rows: pl.LazyFrame) -> Section:
    """The features that helped most."""
    ordered = rows.select("feature", pl.col("gain").cast(pl.Float64)).drop_nulls().sort("gain", "feature", descending=[True, False])
    top, total = ordered.head(MOST_FEATURES).collect(), ordered.select(pl.len()).collect().item()
    most = max(float(top["gain"][0]), 1e-300) if top.height else 1.0
    cells = [(feature, gain / most, number_text(gain)) for feature, gain in top.iter_rows()]
    caption = f"The {top.height} of {total:,} features with the greatest mean gain a split."
    return Section(headline("Feature importance", output), [Grid(("feature", "", "gain"), "lbr", cells, caption)])
