"""The section about images that a model took for another class."""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np
import polars as pl
import pytest

from pipeline.report.finding import Evidence, sections
from pipeline.report.pieces import Figure
from pipeline.report.png import png_address

SEEN = {"split": "test", "truth": "cat", "predicted": "<dog>", "height": 1, "width": 2, "channels": 1}


@pytest.mark.parametrize(("shape", "kind"), [((2, 3), 0), ((2, 3, 3), 2)])
def test_png_address__holds_the_pixels(shape: tuple[int, ...], kind: int) -> None:
    pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape) * 9
    pieces = pieces_of(png_address(pixels))
    assert pieces[b"IHDR"] == bytes([0, 0, 0, 3, 0, 0, 0, 2, 8, kind, 0, 0, 0])
    lines = np.frombuffer(zlib.decompress(pieces[b"IDAT"]), np.uint8).reshape(2, -1)
    assert lines[:, 0].tolist() == [0, 0]
    np.testing.assert_array_equal(lines[:, 1:].reshape(shape), pixels)
    assert pieces[b"IEND"] == b""


def test_mistakes__are_drawn_the_surest_first_and_say_what_they_were_taken_for() -> None:
    chances, pixels = [0.6, 0.9, 0.7], [[0.0, 1.0], [5.0, 5.0], [None, 2.0]]
    rows = pl.DataFrame({"row": ["a", "b", "c"], "probability": chances, "pixels": pixels}).with_columns(
        pl.lit(value).alias(name) for name, value in SEEN.items()
    )
    (section,) = sections(Evidence({"mistakes": rows.lazy()}))
    (figure,) = section.blocks
    assert isinstance(figure, Figure)
    assert re.findall(r"row (\w): cat as &lt;dog&gt;, ([\d.]+)", figure.svg) == [("b", "0.90"), ("c", "0.70"), ("a", "0.60")]
    steps = [_grey(address) for address in re.findall(r'href="([^"]+)"', figure.svg)]
    assert steps == [[0, 0], [0, 0], [0, 255]]
    (empty,) = sections(Evidence({"mistakes": rows.clear().lazy()}))
    assert "No image was taken for another class" in str(empty.blocks)


def pieces_of(address: str) -> dict[bytes, bytes]:
    """The pieces of a picture, by name, without their checksums."""
    content, found = base64.b64decode(address.removeprefix("data:image/png;base64,"))[8:], {}
    while content:
        size = int.from_bytes(content[:4], "big")
        piece, content = content[4 : size + 8], content[size + 12 :]
        found[piece[:4]] = piece[4:]
    return found


def _grey(address: str) -> list[int]:
    """The pixels of a picture of one line."""
    return [*zlib.decompress(pieces_of(address)[b"IDAT"])[1:]]
