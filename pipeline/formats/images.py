"""Images: PNG and JPEG files, each a row of pixels of one size."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from pipeline.bounds import DEFAULTS, Bounds
from pipeline.errors import InputError, PlaceError
from pipeline.files import beside, exists, is_folder, names, parent, read_bytes
from pipeline.format import CostlySource, even_ranges
from pipeline.formats._bounded import BoundedInput
from pipeline.tables.part import Part, Schema

MODES = {1: "L", 3: "RGB"}  # Pillow's, by channels
_DEEP = "I;16"  # how Pillow's modes of 16 bits begin
_PART_BYTES = 32 << 20  # of pixels in a part, where `parts` does not say
_FAILURES = (OSError, SyntaxError, ValueError, EOFError, zlib.error)  # what Pillow raises for damaged files

Fit = Literal["stretch", "crop", "pad"]


@dataclass(frozen=True)
class Canvas:
    """What images become: their size, their channels, and how they are brought to it."""

    height: int
    width: int
    channels: int
    fit: Fit
    limits: Bounds = DEFAULTS

    @property
    def size(self) -> int:
        """Numbers of an image."""
        return self.height * self.width * self.channels

    def decoded(self, path: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Pixels of a file, uint8 [height * width * channels]. Raises InputError for what is no PNG or JPEG, is damaged, or too large."""
        from PIL import Image

        content = read_bytes(path)
        try:
            with Image.open(BytesIO(content), formats=("PNG", "JPEG")) as image:
                self.limits.need_room(path, len(content), image.width * image.height * self.channels)
                image.load()
                return np.asarray(self._drawn(image), np.uint8).reshape(-1)
        except Image.DecompressionBombError as error:
            raise InputError(f"{path}: {error}. Make it smaller before it is read.") from error
        except _FAILURES as error:
            said = str(error).partition(" <")[0]  # what follows is an address in memory
            raise InputError(
                f"{path}: cannot be decoded as PNG or JPEG ({said}). Give a whole file, or take it out of the folder."
            ) from error

    def _drawn(self, image: Any) -> Any:
        """As a camera was held, of 8 bits, of these channels and this size."""
        from PIL import Image, ImageOps

        turned = ImageOps.exif_transpose(image)
        if turned.mode.startswith(_DEEP):
            turned = Image.fromarray((np.asarray(turned) >> 8).astype(np.uint8))
        whole, size = turned.convert(MODES[self.channels]), (self.width, self.height)
        if whole.size == size:
            return whole
        by = Image.Resampling.BILINEAR
        if self.fit == "stretch":
            return whole.resize(size, by)
        return ImageOps.fit(whole, size, by) if self.fit == "crop" else ImageOps.pad(whole, size, by)


@dataclass(frozen=True)
class ImagesSource(CostlySource):
    """Some files, what their images become, and whether their folders are labels."""

    paths: tuple[str, ...]
    canvas: Canvas
    labelled: bool

    def load(self) -> Part:
        """A row a file. Raises InputError, with the file's name, for one that cannot be decoded."""
        pixels = np.empty((len(self.paths), self.canvas.size), np.uint8)
        for row, path in enumerate(self.paths):
            pixels[row] = self.canvas.decoded(path)
        columns: dict[str, Any] = {"image": [_name(path, labelled=self.labelled) for path in self.paths]}
        if self.labelled:
            columns["label"] = [_folder(path) for path in self.paths]
        # a list and no array, which cuDF does not read
        columns["pixels"] = pl.Series(pixels, dtype=pl.Array(pl.UInt8, self.canvas.size)).arr.to_list()
        return Part(pl.DataFrame(columns, schema=_schema(labelled=self.labelled)))


def _schema(*, labelled: bool) -> pl.Schema:
    label: dict[str, pl.DataType] = {"label": pl.String()} if labelled else {}
    return pl.Schema({"image": pl.String(), **label, "pixels": pl.List(pl.UInt8())})


def _folder(path: str) -> str:
    return str(parent(path)).rstrip("/").rpartition("/")[2]


def _name(path: str, *, labelled: bool) -> str:
    """What an image is called: its file, after its folder where that is the label."""
    file = path.rpartition("/")[2]
    return f"{_folder(path)}/{file}" if labelled else file


class ImagesInput(BoundedInput):
    """PNG and JPEG files, a row each: `image` (its name), `label` (its folder's name, with `label: folder`) and `pixels`.

    Pixels are a list of height x width x channels numbers of 0 to 255, row by row, the channels of a pixel beside one another. Images of
    other sizes are brought to this one by Pillow's bilinear resampling, which averages where it makes them smaller. A JPEG is turned as its
    EXIF says the camera was held, 16 bits become the upper 8, and transparency is left out.
    """

    name = "images"
    suffixes = (".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG")

    height: int = Field(ge=1, le=4_096, description="Rows of pixels that every image has in the table.")
    width: int = Field(ge=1, le=4_096, description="Pixels of a row.")
    channels: Literal[1, 3] = Field(1, description="1: grey (0.299 red + 0.587 green + 0.114 blue); 3: red, green and blue.")
    fit: Fit = Field(
        "stretch",
        description="How an image of another shape is brought to size: stretched, cropped around its middle, or padded with black.",
    )
    label: Literal["none", "folder"] = Field(
        "none", description="folder: the folder that a file lies in is its label, and folders in the given one are read."
    )

    @property
    def _labelled(self) -> bool:
        return self.label == "folder"

    def _files_of(self, folder: str) -> list[str]:
        if not self._labelled:
            return super()._files_of(folder)
        folders = [folder, *(deeper for name in names(folder) if is_folder(deeper := beside(folder, name)))]
        return [file for one in folders for name in names(one) if name.endswith(self.suffixes) and exists(file := beside(one, name))]

    def files(self) -> list[str]:
        """The files meant. Raises InputError for two images of one name too."""
        found, seen = super().files(), dict[str, str]()
        for file in found:
            other = seen.setdefault(_name(file, labelled=self._labelled), file)
            if other is not file:
                what = (
                    "Rename one, or give them as inputs of their own" if self._labelled else "With label: folder the folder is part of it"
                )
                raise InputError(f"{file}: is called as {other} is, and an image is known by its name. {what}.")
        return found

    def table_schema(self) -> Schema:
        """Name, label and pixels. Raises PlaceError where Pillow is not installed."""
        if find_spec("PIL") is None:
            raise PlaceError("Pillow, which decodes images, is not installed. Install it with: pip install '.[images]'")
        self.files()
        return Schema(_schema(labelled=self._labelled))

    def rows(self) -> int:
        """As many as there are files."""
        return len(self.files())

    def sources(self, parallel: int) -> Sequence[ImagesSource]:
        """Even numbers of files, of up to 32 MiB of pixels where `parts` does not say."""
        files = self.files()
        canvas = Canvas(self.height, self.width, self.channels, self.fit, self.limits)
        count = self.parts or min(len(files), max(parallel, -(-len(files) * canvas.size // _PART_BYTES)))
        ranges = even_ranges(len(files), count)
        return [ImagesSource(tuple(files[first : first + size]), canvas, self._labelled) for first, size in ranges]
