"""The images format: pixels as Pillow has them, in any parts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipeline.errors import InputError, PlaceError
from pipeline.formats import images
from pipeline.formats.images import ImagesInput
from pipeline.testing.formats import assert_reads, read_table

PIL = pytest.importorskip("PIL")
from PIL import Image, ImageOps  # noqa: E402 - after the check that it is there

RNG = np.random.default_rng(20261123)


def reader(*paths: Path | str, **given: Any) -> ImagesInput:
    return ImagesInput.model_validate({"path": [str(path) for path in paths], "height": 6, "width": 5, **given})


def noise(*shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def save(path: Path, pixels: np.ndarray[Any, Any], **options: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def pixels_of(path: Path, **given: Any) -> list[int]:
    found: list[int] = read_table(reader(path, **given)).frame["pixels"].to_list()[0]
    return found


def test_images__of_folders_are_rows_of_pixels_with_labels_in_any_parts(tmp_path: Path) -> None:
    made = {f"{label}/{number}.png": noise(6, 5) for label in ("cat", "dog") for number in range(5)}
    for name, pixels in made.items():
        save(tmp_path / name, pixels)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    lists = pl.Series([list(map(int, one.ravel())) for one in made.values()], dtype=pl.List(pl.UInt8))
    expected = pl.DataFrame({"image": list(made), "label": [name[:3] for name in made], "pixels": lists})
    assert_reads(reader(tmp_path, label="folder"), expected)
    assert_reads(reader(tmp_path / "**" / "*.png", label="folder").pinned(), expected)
    cats = expected.filter(pl.col("label") == "cat").select(pl.col("image").str.slice(4), "pixels")
    assert_reads(reader(tmp_path / "cat"), cats)


def test_sources__have_as_many_files_as_their_pixels_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        save(tmp_path / f"{number}.png", noise(6, 5))
    assert [len(source.paths) for source in reader(tmp_path).sources(2)] == [4, 5]
    monkeypatch.setattr(images, "_PART_BYTES", 60)
    assert [len(source.paths) for source in reader(tmp_path).sources(2)] == [1, 2, 2, 2, 2]


@pytest.mark.parametrize("name", ["a.png", "a.JPG", "a.jpeg"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_pixels__are_those_of_pillow(tmp_path: Path, name: str, channels: int, fit: str) -> None:
    path = save(tmp_path / name, noise(23, 17, 3))
    whole = Image.open(path).convert({1: "L", 3: "RGB"}[channels])
    size, by = (5, 6), Image.Resampling.BILINEAR
    by_fit = {
        "stretch": lambda: whole.resize(size, by),
        "crop": lambda: ImageOps.fit(whole, size, by),
        "pad": lambda: ImageOps.pad(whole, size, by),
    }
    assert pixels_of(path, channels=channels, fit=fit) == np.asarray(by_fit[fit]()).ravel().tolist()


def test_stretch__halves_an_image_to_the_weighted_means_of_a_tent(tmp_path: Path) -> None:
    line = np.array([[0, 0, 80, 160, 160, 160]], np.uint8)
    tent = np.array([1, 3, 3, 1]) / 8  # of two pixels' half width, at the middle of each pair
    padded = np.pad(line[0].astype(float), 1)
    inside = [float(tent @ padded[2 * at : 2 * at + 4]) / float(tent @ np.pad(np.ones(6), 1)[2 * at : 2 * at + 4]) for at in range(3)]
    assert pixels_of(save(tmp_path / "a.png", line), height=1, width=3) == [round(value) for value in inside]


def test_other_kinds__palettes_transparency_two_colours_and_sixteen_bits(tmp_path: Path) -> None:
    grey = noise(6, 5)
    assert pixels_of(save(tmp_path / "deep.png", grey.astype(np.uint16) * 256 + 7)) == grey.ravel().tolist()
    assert pixels_of(save(tmp_path / "ink.png", grey > 99)) == ((grey > 99) * 255).ravel().tolist()
    see_through = np.dstack([grey, grey, grey, noise(6, 5)])
    assert pixels_of(save(tmp_path / "clear.png", see_through), channels=3) == np.repeat(grey.ravel(), 3).tolist()
    Image.fromarray(grey).convert("P").save(tmp_path / "palette.png")
    assert pixels_of(tmp_path / "palette.png") == grey.ravel().tolist()


def test_a_jpeg__is_turned_as_the_camera_was_held(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter to the right
    path = save(tmp_path / "a.jpg", noise(5, 6), exif=exif)
    assert pixels_of(path) == np.rot90(np.asarray(Image.open(path)), -1).ravel().tolist()


def damaged(name: str) -> bytes:
    """A file that is none of an image, or not whole."""
    from io import BytesIO

    whole = BytesIO()
    Image.fromarray(noise(40, 40)).save(whole, "JPEG" if name.endswith("jpg") else "PNG")
    content = whole.getvalue()
    if name.startswith("text"):
        return b"these are words"
    if name.startswith("cut"):
        return content[: len(content) // 2]
    return content[:60] + bytes([content[60] ^ 0xFF]) + content[61:]


@pytest.mark.parametrize("name", ["text.png", "text.jpg", "cut.png", "cut.jpg", "changed.png"])
def test_damaged_images__are_refused_by_name(tmp_path: Path, name: str) -> None:
    save(tmp_path / "a.png", noise(6, 5))
    (tmp_path / name).write_bytes(damaged(name))
    with pytest.raises(InputError, match=rf"{name}: cannot be decoded as PNG or JPEG \(.+\)\. Give a whole file") as told:
        read_table(reader(tmp_path))
    assert "0x" not in str(told.value)


def test_an_image__that_is_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png", np.zeros((90, 90), np.bool_))
    monkeypatch.setattr("pipeline.bounds.FREE_BYTES", 1_000)
    with pytest.raises(InputError, match=r"a\.png: has [\d,]+ bytes and comes to 24,300 or more .* may come to 2 times its size"):
        read_table(reader(path, channels=3, limits={"inflation": 2}))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4_000)
    with pytest.raises(InputError, match=r"a\.png: Image size \(8100 pixels\) exceeds limit .* Make it smaller before it is read"):
        read_table(reader(path))


def test_names__that_two_images_have_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        save(tmp_path / folder / "1.png", noise(6, 5))
    with pytest.raises(InputError, match=r"b/1\.png: is called as .*a/1\.png is, .* With label: folder the folder is part of it"):
        reader(tmp_path / "*" / "1.png").table_schema()
    with pytest.raises(InputError, match=r"1\.png: is called as .* Rename one, or give them as inputs of their own"):
        reader(tmp_path / "a", tmp_path / "a" / "1.png", label="folder").table_schema()


def test_images__without_pillow_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "1.png", noise(6, 5))
    monkeypatch.setattr(images, "find_spec", lambda _name: None)
    with pytest.raises(PlaceError, match=r"Pillow, which decodes images, is not installed\. Install it with: pip install '\.\[images\]'"):
        reader(tmp_path).table_schema()
