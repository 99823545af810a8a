"""The chain format: blocks of UCSC's chain files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.formats.chain import ChainInput
from pipeline.testing.formats import read_table

TEXT = """# a comment
chain 4900 chr1 5000 + 100 400 chr1 6000 + 1100 1410 1
100 20 30
180

chain 900 chr1 5000 + 1000 1100 chrX 3000 - 500 600 2
40\t10\t10
50
"""


@pytest.mark.parametrize("name", ["x.chain", "x.over.chain.gz"])
def test_chain__gives_blocks_by_their_first_and_last_position(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()) if name.endswith("gz") else TEXT.encode())
    assert read_table(ChainInput(path=(str(tmp_path / name),))).frame.rows() == [
        ("chr1", 101, 200, "chr1", 1101, "+", 4900),
        ("chr1", 221, 400, "chr1", 1231, "+", 4900),
        ("chr1", 1001, 1040, "chrX", 2500, "-", 900),
        ("chr1", 1051, 1100, "chrX", 2450, "-", 900),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("100 20 30\n", "line 1 stands before any chain"),
        ("chain 1 chr1 5 - 0 5 chr1 5 + 0 5 1\n5\n", "line 1 is none of a chain file: 'chain 1 chr1 5 - 0"),
        ("chain 1 chr1\n", "line 1 is none of a chain file"),
        (TEXT + "ten\n", "line 9 is none of a chain file: 'ten'"),
        ("# nothing\n", "has no chain"),
    ],
)
def test_chain__refuses_what_is_none(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.chain").write_text(text)
    with pytest.raises(InputError, match=said):
        read_table(ChainInput(path=(str(tmp_path / "x.chain"),)))
