"""Files, job files and expressions spoiled by chance (benchmarks/fuzz.py), and what it found: refused in words, or a right answer."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from benchmarks import fuzz, fuzz_files
from pipeline.backend.engines import collect
from pipeline.errors import InputError, RunError
from pipeline.formats._bgzip.blocks import TextRange
from pipeline.formats._bgzip.lines import read_lines
from pipeline.formats.bgen import BgenInput
from pipeline.formats.csv import CsvInput
from pipeline.formats.jsonl import JsonlInput
from pipeline.formats.pgen import PgenInput
from pipeline.testing.formats import read_table
from tests.small import ROOT

CASES, SEED = 8, 5


@pytest.mark.process
def test_fuzz__finds_nothing_in_a_few_cases_of_each_kind() -> None:
    """In a process of its own, with bounded memory."""
    kinds = ",".join((*fuzz_files.KINDS, *fuzz.OTHERS))
    command = [sys.executable, "benchmarks/fuzz.py", "--child", kinds, "--seed", str(SEED), "--cases", str(CASES)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    outcomes = [line for line in ended.stdout.splitlines() if line.startswith("case ")]
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert len(outcomes) == CASES * len(kinds.split(","))
    assert [outcome for outcome in outcomes if "fault" in outcome] == []


@pytest.fixture
def alarmed() -> Iterator[None]:
    """Cases set an alarm, which would end this process."""
    before = signal.signal(signal.SIGALRM, fuzz._hang)
    yield
    signal.signal(signal.SIGALRM, before)


FOUND = [
    *[("arrow", 1, case) for case in (21, 52, 63, 115, 141)],  # panics of Polars
    *[("avro", 1, case) for case in (28, 45, 59, 69)],  # KeyError, EOFError, UnicodeDecodeError, SchemaParseException
    *[("orc", 1, case) for case in (14, 19, 24, 43)],  # ArrowException
    *[("parquet", 2, case) for case in (191, 204, 252)],  # a footer's text, panics
    *[("parquet.nested", seed, case) for seed, case in ((2, 472), (4, 41))],  # ArrowNotImplementedError, UnicodeDecodeError
    *[("pgen", 2, case) for case in (364, 436, 560)],  # ValueError
    ("csv.gz", 14, 1077),  # without its magic bytes it was taken for text
    *[("gtf.gz", 1, case) for case in (11, 136)],  # ValueError
]


@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize(("kind", "seed", "case"), FOUND)
def test_fuzz__what_it_found_is_refused_in_words(kind: str, seed: int, case: int) -> None:
    (outcome,) = fuzz.reader_cases(kind, seed, case, 1)
    assert outcome == "refused"


def test_queries__that_panic_fail_as_others_do() -> None:
    class Panics:
        def collect(self, engine: str) -> pl.DataFrame:
            raise pl.exceptions.PanicException(f"{engine}: called `Result::unwrap()` on an `Err` value")

    with pytest.raises(pl.exceptions.ComputeError, match="Polars broke off"):
        collect(cast("Any", Panics()), "cpu")


def test_bgzip__a_block_smaller_than_its_head_is_none(tmp_path: Path) -> None:
    block = bytearray(fuzz_files.bgzipped(b"a\n" * 10))
    block[16:18] = struct.pack("<H", 3)
    (path := tmp_path / "x.gz").write_bytes(block)
    with pytest.raises(InputError, match=r"x\.gz: no bgzip block begins at byte 0"):
        list(read_lines(TextRange(str(path), "bgzf", 0, len(block))))


def test_pgen__refuses_more_variants_than_bytes_and_a_header_that_ends(tmp_path: Path) -> None:
    fuzz_files.pgen(tmp_path)
    whole = (path := tmp_path / "x.pgen").read_bytes()
    reader = PgenInput.model_validate({"path": str(path)})
    path.write_bytes(whole[:3] + struct.pack("<I", 2**32 - 1) + whole[7:])
    with pytest.raises(InputError, match=r"says that it has 4,294,967,295 variants, and has [\d,]+ bytes"):
        reader.table_schema()
    path.write_bytes(whole[:200])
    with pytest.raises(InputError, match=r"x\.pgen: ends within its header, which says that it has 300 variants"):
        reader.table_schema()


def test_bgen__refuses_more_variants_than_bytes(tmp_path: Path) -> None:
    fuzz_files.bgen(tmp_path)
    whole = (path := tmp_path / "x.bgen").read_bytes()
    path.write_bytes(whole[:8] + struct.pack("<I", 2**31) + whole[12:])
    with pytest.raises(InputError, match=r"says that it has 2,147,483,648 variants, and has [\d,]+ bytes"):
        BgenInput.model_validate({"path": str(path)}).table_schema()


def test_csv__of_damaged_gzip_is_refused_by_its_checksum(tmp_path: Path) -> None:
    fuzz_files.KINDS["csv.gz"][1](tmp_path)
    whole = (path := tmp_path / "x.csv.gz").read_bytes()
    random_bytes = random.Random(1)
    for _ in range(50):
        data = bytearray(whole)
        data[random_bytes.randrange(20, len(data))] ^= 1 << random_bytes.randrange(8)
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"x\.csv\.gz"):
            read_table(CsvInput.model_validate({"path": str(path)}))


def test_jsonl__names_the_line_whose_values_are_of_other_types(tmp_path: Path) -> None:
    lines = ['{"x": 1.5}'] * 20 + ['{"x": true}'] + ['{"x": 2.5}'] * 20
    (path := tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises((InputError, RunError), match=r"x\.jsonl:21: its values are not those of other lines"):
        read_table(JsonlInput.model_validate({"path": str(path)}))


def test_spoiled__is_the_same_for_the_same_seed() -> None:
    content = np.arange(256, dtype=np.uint8).tobytes()
    first, second = (fuzz_files.spoiled(content, random.Random("1:csv:7")) for _ in range(2))
    assert first == second
