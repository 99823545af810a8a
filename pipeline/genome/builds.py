"""Genome builds: the one name of each, what a text or a list of chromosome lengths says about it, and the `build` key of inputs.

Inputs of genotypes, variants or genes have that key from genome/inputs.py, an output says `build: Build = build_field()`. Lengths are
those of the assemblies' own reports (NCBI: GCF_000001405.12, .13, .26, GCF_009914755.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

MARK = "genome builds"
"""The kind of the mark that tables have of their build."""

BUILDS = {
    "NCBI36": ("ncbi36", "hg18", "b36", "36", "grch36"),
    "GRCh37": ("grch37", "hg19", "b37", "37", "hs37", "hs37d5", "g1k_v37", "human_g1k_v37", "ncbi37"),
    "GRCh38": ("grch38", "hg38", "b38", "38", "hs38", "hs38dh", "hs38d1", "ncbi38"),
    "T2T-CHM13": ("t2t-chm13", "t2t", "chm13", "chm13v2", "chm13v2.0", "hs1", "t2t-chm13v2.0"),
}
"""The name of each build, and other names that it goes by, in lower case."""

_LENGTHS: dict[str, tuple[int, ...]] = {  # of chromosomes 1 to 22, X and Y
    "NCBI36": (
        247249719, 242951149, 199501827, 191273063, 180857866, 170899992, 158821424, 146274826, 140273252, 135374737, 134452384, 132349534,
        114142980, 106368585, 100338915, 88827254, 78774742, 76117153, 63811651, 62435964, 46944323, 49691432, 154913754, 57772954,
    ),
    "GRCh37": (
        249250621, 243199373, 198022430, 191154276, 180915260, 171115067, 159138663, 146364022, 141213431, 135534747, 135006516, 133851895,
        115169878, 107349540, 102531392, 90354753, 81195210, 78077248, 59128983, 63025520, 48129895, 51304566, 155270560, 59373566,
    ),
    "GRCh38": (
        248956422, 242193529, 198295559, 190214555, 181538259, 170805979, 159345973, 145138636, 138394717, 133797422, 135086622, 133275309,
        114364328, 107043718, 101991189, 90338345, 83257441, 80373285, 58617616, 64444167, 46709983, 50818468, 156040895, 57227415,
    ),
    "T2T-CHM13": (
        248387328, 242696752, 201105948, 193574945, 182045439, 172126628, 160567428, 146259331, 150617247, 134758134, 135127769, 133324548,
        113566686, 101161492, 99753195, 96330374, 84276897, 80542538, 61707364, 66210255, 45090682, 51324926, 154259566, 62460029,
    ),
}  # fmt: skip
_CHROMOSOMES = (*(str(number) for number in range(1, 23)), "x", "y")
_BUILD_OF = {
    (chromosome, length): build for build, lengths in _LENGTHS.items() for chromosome, length in zip(_CHROMOSOMES, lengths, strict=True)
}


def normal_build(text: str) -> str:
    """The one name of a build that goes by several (hg19, b37 and GRCh37 are GRCh37). Raises ValueError, with a list, for no such name."""
    word = re.sub(r"\.p\d+$", "", text.strip().lower())
    for build, names in BUILDS.items():
        if word in names:
            return build
    known = "; ".join(f"{build} ({', '.join(names[1:3])})" for build, names in BUILDS.items())
    raise ValueError(f"{text!r} is no genome build that is known here: {known}. Leave it out for another one")


def build_in_text(text: str) -> str | None:
    """The build that a header's text names (`file:///ref/GRCh38.p13.fa.gz`, `human genome (GRCh37)`); None for none or several."""
    words = re.findall(r"(?:grch|hg|ncbi|hs|b|g1k_v)(?:18|19|3[678])(?!\d)|t2t|chm13", text.lower())
    found = {build for word in words for build, names in BUILDS.items() if word in names}
    return found.pop() if len(found) == 1 else None


def build_of_contigs(lengths: Mapping[str, int]) -> str | None:
    """The build whose chromosomes 1 to 22, X and Y (with or without `chr`) have these lengths; None where none or several have."""
    keys = ((name.lower().removeprefix("chr"), length) for name, length in lengths.items())
    found = {_BUILD_OF[key] for key in keys if key in _BUILD_OF}
    return found.pop() if len(found) == 1 else None


def _stated(value: Any) -> Any:
    """A build as the job states it; 37 and 38 may be written as numbers."""
    return None if value is None else normal_build(str(value))


Build = Annotated[str | None, BeforeValidator(_stated)]


def build_field() -> Any:
    """The default and the description of an input's `build`."""
    return Field(None, description="Genome build (GRCh37, GRCh38, T2T-CHM13, NCBI36, hg19 ...); as the file's header says where not given.")
