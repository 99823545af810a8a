from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.formats._bgzip import cutting, lines
from pipeline.formats._bgzip.blocks import TextRange, file_kind
from pipeline.formats._bgzip.cutting import plan_ranges, text_size
from pipeline.formats._bgzip.lines import read_lines

KINDS = ("plain", "gzip", "bgzip")
TextFile = Callable[[str, bytes], Path]


def numbered_lines(count: int, longest: int) -> bytes:
    """Lines of many lengths, some longer than several blocks, after a header of three."""
    rng = random.Random(7)
    header = b"##one\n##two " + b"x" * 900 + b"\n#three\n"
    return header + b"".join(b"%d %s\n" % (i, b"abc" * rng.randrange(longest if i % 9 == 0 else 9)) for i in range(count))


def read_all(ranges: list[TextRange]) -> list[list[bytes]]:
    return [list(read_lines(part)) for part in ranges]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("final_newline", [True, False])
@pytest.mark.parametrize("target", [1, 97, 700, 4001, 1 << 30])
def test_read_lines__gives_every_line_once_for_any_ranges(text_file: TextFile, kind: str, final_newline: bool, target: int) -> None:
    text = numbered_lines(120, 1500)[: None if final_newline else -1]
    ranges = plan_ranges(text_file(f"lines.{kind}", text), target)
    chunks = [chunk for part in read_all(ranges) for chunk in part]
    assert b"".join(chunks) == text
    assert all(chunk.endswith(b"\n") for chunk in chunks[:-1])
    assert len(ranges) == 1 if kind == "gzip" or target == 1 << 30 else len(ranges) > len(text) // max(target, 701) // 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk_bytes", [1, 500, 3000])
def test_read_lines__cuts_chunks_at_line_ends(text_file: TextFile, monkeypatch: pytest.MonkeyPatch, kind: str, chunk_bytes: int) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk_bytes)
    text = numbered_lines(200, 400)
    chunks = list(read_lines(plan_ranges(text_file(f"lines.{kind}", text), 1 << 30)[0]))
    assert b"".join(chunks) == text
    assert len(chunks) > 3
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert max(map(len, chunks)) <= chunk_bytes + 2 * max(1200, chunk_bytes)


def test_read_lines__gives_a_line_to_the_range_of_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"aaa\nbbb\nccccccccc\nd\n")
    ranges = plan_ranges(path, 4)
    assert [(part.start, part.end) for part in ranges] == [(0, 4), (4, 8), (8, 12), (12, 16), (16, 20)]
    assert read_all(ranges) == [[b"aaa\n"], [b"bbb\n"], [b"ccccccccc\n"], [], [b"d\n"]]


@pytest.mark.parametrize("target", [1, 1400])
def test_read_lines__of_bgzip_keeps_a_line_that_begins_with_its_block(text_file: TextFile, target: int) -> None:
    text = b"lines of text\n" * 300  # 50 lines a block; an empty block stands before the third
    parts = read_all(plan_ranges(text_file("lines.bgzip", text), target))
    assert [len(b"".join(part)) for part in parts] == [max(target, 700)] * (4200 // max(target, 700))


def test_plan_ranges__cuts_bgzip_by_text_and_pickles(text_file: TextFile) -> None:
    text = b"line of text\n" * 5000
    ranges = plan_ranges(text_file("lines.bgzip", text), 14_000)
    sizes = [sum(map(len, part)) for part in read_all(ranges)]
    assert len(ranges) == 5
    assert all(abs(size - 14_000) < 800 for size in sizes[:-1])
    assert pickle.loads(pickle.dumps(ranges)) == ranges


def test_plan_ranges__cuts_large_bgzip_evenly_where_text_shrinks_unevenly(text_file: TextFile, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    text = b"".join(b"%d\n" % rng.getrandbits(1500) for _ in range(6000)) + b"".join(b"%d %0450d\n" % (i, i % 7) for i in range(30_000))
    path = text_file("lines.bgzip", text)
    monkeypatch.setattr(cutting, "COUNTED", 1 << 20)
    monkeypatch.setattr(cutting, "STRETCH", path.stat().st_size // 12)
    ranges = plan_ranges(path, 500_000)
    parts = [b"".join(part) for part in read_all(ranges)]
    assert b"".join(parts) == text
    assert max(map(len, parts)) < 2 * 500_000
    assert len(parts) == pytest.approx(len(text) / 500_000, rel=0.2)
    assert text_size(path) == pytest.approx(len(text), rel=0.2)


def test_large_bgzip_with_a_hole__is_refused_by_who_reads_it(text_file: TextFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text_file("lines.bgzip", numbered_lines(300, 3000))
    whole = path.read_bytes()
    monkeypatch.setattr(cutting, "COUNTED", 0)
    for hole in (500, len(whole) // 2, len(whole) - 500):
        path.write_bytes(whole[:hole] + whole[hole + 100 :])
        with pytest.raises(InputError, match=r"no bgzip block|looks truncated|compressed data are damaged"):
            read_all(plan_ranges(path, 20_000))


def test_plan_ranges__refuses_a_target_below_one(text_file: TextFile) -> None:
    with pytest.raises(ValueError, match="must be 1 or more, not 0"):
        plan_ranges(text_file("lines.plain", b"a\n"), 0)


@pytest.mark.parametrize("name", ["plain", "gzip", "bgzip"])
def test_file_kind__knows_each(text_file: TextFile, name: str) -> None:
    assert file_kind(text_file(name, b"text\n" * 300)) == name.replace("bgzip", "bgzf")


def test_file_kind__refuses_missing_empty_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.vcf: there is no such file; check the path"):
        file_kind(tmp_path / "absent.vcf")
    (tmp_path / "empty.vcf").touch()
    with pytest.raises(InputError, match=r"empty\.vcf: the file is empty"):
        file_kind(tmp_path / "empty.vcf")
    with pytest.raises(InputError, match=r"cannot be read .Is a directory"):
        file_kind(tmp_path)


def test_plan_ranges__refuses_a_bgzip_file_without_its_end(text_file: TextFile) -> None:
    path = text_file("lines.bgzip", numbered_lines(100, 500))
    whole = path.read_bytes()
    for lost in (28, 29, 1000):
        path.write_bytes(whole[:-lost])
        with pytest.raises(InputError, match=r"lines\.bgzip: looks truncated: the block that ends every bgzip file is missing"):
            plan_ranges(path, 1000)


def test_plan_ranges__refuses_a_hole_in_a_bgzip_file(text_file: TextFile) -> None:
    path = text_file("lines.bgzip", numbered_lines(100, 500))
    whole = path.read_bytes()
    path.write_bytes(whole[:-500] + whole[-400:])
    with pytest.raises(InputError, match=r"no bgzip block begins at byte|looks truncated: the bgzip block at byte"):
        plan_ranges(path, 1000)


def test_read_lines__refuses_damaged_blocks(text_file: TextFile) -> None:
    path = text_file("lines.bgzip", numbered_lines(100, 500))
    ranges = plan_ranges(path, 1000)
    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=r"lines\.bgzip: the compressed data are damaged"):
        read_all(ranges)


def test_read_lines__refuses_a_bgzip_file_that_was_cut_after_planning(text_file: TextFile) -> None:
    path = text_file("lines.bgzip", numbered_lines(100, 500))
    ranges = plan_ranges(path, 1 << 30)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"looks truncated: the bgzip block at byte \d+ has \d+ bytes and the file ends after \d+"):
        read_all(ranges)


def test_read_lines__refuses_a_truncated_gzip(text_file: TextFile) -> None:
    path = text_file("lines.gzip", numbered_lines(100, 500))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"lines\.gzip: looks truncated: the gzip data stop in the middle"):
        read_all(plan_ranges(path, 1000))
