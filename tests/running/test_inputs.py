"""Inputs as tables of a session."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from distributed.protocol import pickle

from pipeline.formats._plink.bed_files import write_plink
from pipeline.formats.plink import PlinkInput
from pipeline.kernels.genotypes import pack
from pipeline.running.inputs import input_table
from pipeline.tables.part import Schema
from tests.harness import in_process

PEOPLE = 20_000


def test_input_table__does_not_send_the_people_with_every_task(tmp_path: Path) -> None:
    people = pl.DataFrame({"sample_id": [f"person-{number}" for number in range(PEOPLE)]})
    rows = pl.DataFrame({"chromosome": ["1"], "base_pair_location": [1], "variant_id": ["v"], "ref": ["A"], "alt": ["G"]})
    write_plink(tmp_path / "calls", rows, people, [pack(np.zeros((1, PEOPLE), np.uint8))])
    given = PlinkInput(path=(str(tmp_path / "calls.bed"),))
    with in_process(1) as session:
        table = input_table(session, "calls", given, Schema(rows.schema))
        labels = table.axes["calls"].value()
        assert session.value(labels).frame["sample_id"].equals(people["sample_id"])
        assert len(pickle.dumps(labels)) < PEOPLE
