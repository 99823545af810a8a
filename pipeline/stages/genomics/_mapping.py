"""Reads and pairs mapped by mappy, and their rows as SAM has them. Not a stage.

minimap2: Li (2018), Bioinformatics 34:3094. SAM: https://samtools.github.io/hts-specs/SAMv1.pdf. The library maps one read or one
pair a call of some microseconds, for which it leaves Python's lock, and takes it to say what it found. So all that is done between two
calls is to keep that; rows are made of it by columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import InputError, PlaceError
from pipeline.files import Stamp

PAIRED, PROPER, UNMAPPED, MATE_UNMAPPED, REVERSE, MATE_REVERSE = 1, 2, 4, 8, 16, 32
FIRST, SECOND, SECONDARY, FAILED, DUPLICATE, SUPPLEMENTARY = 64, 128, 256, 512, 1024, 2048
FRAGMENT_MOST, GAP_MOST = 800, 100  # of preset sr: the longest fragment, and the least that may lie between mates whatever their lengths
COLUMNS = (
    "sample_id", "read_id", "flag", "chromosome", "base_pair_location", "mapping_quality", "cigar", "strand", "edit_distance",
    "mate_chromosome", "mate_location", "template_length", "bases", "base_qualities",
)  # fmt: skip
_READ = ("sample_id", "read_id", "bases", "base_qualities")
_NUMBERS = ("key", "start", "stop", "strand", "mapping_quality", "query_start", "query_stop", "edit_distance", "matches")
_PLACE = ("chromosome", "start", "stop", "strand")
_COMPLEMENT = str.maketrans("ACGTUNacgtunRYKMBVDHrykmbvdh", "TGCAANtgcaanYRMKVBHDyrmkvbhd")
_LOCK = Lock()


def need_mappy() -> None:
    """Raise PlaceError where mappy is not installed."""
    if find_spec("mappy") is None:
        raise PlaceError("mappy, which aligns reads, is not installed. Install it with: pip install '.[align]'")


def aligner(path: str, preset: str, known: Stamp) -> Any:
    """The index of a reference for a preset, made once a process. InputError for what is no FASTA."""
    with _LOCK:
        return _aligner(path, preset, known)


@lru_cache(maxsize=2)
def _aligner(path: str, preset: str, _known: Stamp) -> Any:
    import mappy

    found = mappy.Aligner(path, preset=preset, n_threads=1)
    if not found or not found.seq_names:
        raise InputError(f"{path}: minimap2 cannot index it. Is it a FASTA file?")
    return found


def alignments(index: Any, reads: pl.DataFrame) -> pl.DataFrame:
    """The rows (COLUMNS) of reads, or of pairs (mate_bases): of each read its alignments, or that it has none, mates behind one another."""
    paired = "mate_bases" in reads.columns
    hits = _hits(index, reads, paired=paired)
    ends, mains = _ends(reads, paired=paired), _firsts(hits)
    if paired:
        mains = _faced(hits, reads, mains)
        place = hits.select("hit", *(pl.col(name).alias(f"mate_{name}") for name in _PLACE))
        others = mains.select(pl.col("key") ^ 1, "hit").join(place, on="hit").drop("hit")
    else:
        others = pl.DataFrame(schema={"key": pl.Int64, **{f"mate_{name}": hits.schema[name] for name in _PLACE}})
    rows = ends.join(hits, on="key", how="left", maintain_order="left_right")
    for more in (mains.rename({"hit": "main"}), others):
        rows = rows.join(more, on="key", how="left", maintain_order="left")
    return _written(_read_as_aligned(rows, paired=paired), paired=paired)


def _ends(reads: pl.DataFrame, *, paired: bool) -> pl.DataFrame:
    """A row a read, by `key`: the row's number, or of pairs twice that, and 1 more for the second."""
    numbered = reads.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("key"))
    if not paired:
        return numbered.select("key", *_READ)
    first = numbered.select(pl.col("key") * 2, "sample_id", pl.col("read_id").str.strip_suffix("/1"), *_READ[2:])
    mates = (pl.col(f"mate_{name}").alias(name) for name in _READ[2:])
    second = first.select(pl.col("key") + 1, *_READ[:2]).hstack(reads.select(*mates))
    return pl.concat([first, second]).sort("key")


def _hits(index: Any, reads: pl.DataFrame, *, paired: bool) -> pl.DataFrame:
    """Where reads lie (_NUMBERS, chromosome and cigar), by the read's key, the best first; all but secondary alignments, numbered (`hit`).

    Places on the reference, and on the read as the library read it, are counted from 0, the end excluded.
    """
    import mappy

    buffer, numbers, texts = mappy.ThreadBuffer(), list[int](), list[str]()
    mates: Iterable[str | None] = reads["mate_bases"].to_list() if paired else [None] * reads.height
    named = zip(reads["read_id"].to_list(), reads["bases"].to_list(), mates, strict=True)
    for at, (name, bases, mate) in enumerate(named):
        key = 2 * at - 1 if paired else at - 1  # what the first read of a pair is called is 1
        for hit in index.map(bases, mate, name, buffer):
            if hit.is_primary:
                numbers += (key + hit.read_num, hit.r_st, hit.r_en, hit.strand, hit.mapq, hit.q_st, hit.q_en, hit.NM, hit.mlen)
                texts += (hit.ctg, hit.cigar_str)
    table = np.array(numbers, np.int64).reshape(-1, len(_NUMBERS))
    columns = [pl.Series(name, table[:, at]) for at, name in enumerate(_NUMBERS)]
    columns += [pl.Series(name, texts[at::2], pl.String) for at, name in enumerate(("chromosome", "cigar"))]
    return pl.DataFrame(columns).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("hit"))


def _firsts(hits: pl.DataFrame) -> pl.DataFrame:
    """The best hit of each read."""
    return hits.select("key", "hit", pl.lit(value=False).alias("proper")).unique("key", keep="first", maintain_order=True)


def _faced(hits: pl.DataFrame, reads: pl.DataFrame, firsts: pl.DataFrame) -> pl.DataFrame:
    """The hit that stands for each read of pairs: of those that face each other, the forward first and not too far off, the best two."""
    known = hits.select("key", "hit", *_PLACE, "matches", pair=pl.col("key") // 2)
    both = known.filter(pl.col("key") % 2 == 0).join(known.filter(pl.col("key") % 2 == 1), on=["pair", "chromosome"], suffix="_2")
    length = reads.select(
        pair=pl.int_range(pl.len(), dtype=pl.Int64), bases=sum(pl.col(name).str.len_bytes() for name in ("bases", "mate_bases"))
    )
    both = both.filter(pl.col("strand") != pl.col("strand_2")).join(length, on="pair")
    turned = pl.col("strand") < 0
    forward, stop = (pl.when(turned).then(pl.col(f"{name}_2")).otherwise(name) for name in ("start", "stop"))
    back = pl.when(turned).then("start").otherwise("start_2")
    most = pl.max_horizontal(FRAGMENT_MOST - pl.col("bases").cast(pl.Int64), GAP_MOST)
    near = both.filter((forward <= back) & (back <= stop + most)).with_columns(pl.col("matches") + pl.col("matches_2"))
    best = near.sort("pair", "matches", "hit", "hit_2", descending=[False, True, False, False]).unique("pair", keep="first")
    found = pl.concat([best.select("key", "hit"), best.select(pl.col("key_2").alias("key"), pl.col("hit_2").alias("hit"))])
    kept = firsts.join(found, on="key", how="anti")
    return pl.concat([kept, found.with_columns(pl.lit(value=True).alias("proper"))])


def _read_as_aligned(rows: pl.DataFrame, *, paired: bool) -> pl.DataFrame:
    """Bases and qualities in the direction of the reference, and how many are left out `before` and `behind`; of a second read the library
    counts from its other end."""
    turned = rows["strand"].fill_null(1) < 0
    bases, qualities = (rows[name].to_list() for name in _READ[2:])
    for at in turned.arg_true().to_list():
        bases[at], qualities[at] = bases[at].translate(_COMPLEMENT)[::-1], qualities[at][::-1]
    second = pl.col("key") % 2 == 1 if paired else pl.lit(value=False)
    from_first, from_last = pl.col("query_start"), pl.col("bases").str.len_bytes().cast(pl.Int64) - pl.col("query_stop")
    same = (pl.col("strand") < 0) == second
    return rows.with_columns(
        pl.Series("bases", bases, pl.String),
        pl.Series("base_qualities", qualities, pl.String),
        pl.when(same).then(from_first).otherwise(from_last).alias("before"),
        pl.when(same).then(from_last).otherwise(from_first).alias("behind"),
        pl.col("hit").is_null().alias("nowhere"),
        (pl.col("hit") != pl.col("main")).fill_null(value=False).alias("extra"),
    )


def _written(rows: pl.DataFrame, *, paired: bool) -> pl.DataFrame:
    """The columns of SAM."""
    letter = pl.when("extra").then(pl.lit("H")).otherwise(pl.lit("S"))
    clips = (pl.when(pl.col(name) > 0).then(pl.concat_str(name, letter)).otherwise(pl.lit("")) for name in ("before", "behind"))
    before, behind = clips
    rest = pl.col("bases").str.len_bytes().cast(pl.Int64) - pl.col("before") - pl.col("behind")
    cut = (pl.when("extra").then(pl.col(name).str.slice("before", rest)).otherwise(name).alias(name) for name in _READ[2:])
    place, mate_place = (pl.col(f"{mate}start") + 1 for mate in ("", "mate_"))
    nothing = pl.lit(None)
    return rows.select(
        *_READ[:2],
        _flag(paired=paired).alias("flag"),
        pl.coalesce("chromosome", "mate_chromosome").alias("chromosome"),
        pl.coalesce(place, mate_place).alias("base_pair_location"),
        pl.col("mapping_quality").fill_null(0),
        pl.concat_str(before, "cigar", behind).alias("cigar"),
        pl.when(pl.col("strand") < 0).then(pl.lit("-")).when("nowhere").then(nothing).otherwise(pl.lit("+")).alias("strand"),
        "edit_distance",
        (pl.coalesce("mate_chromosome", "chromosome") if paired else nothing).alias("mate_chromosome"),
        (pl.coalesce(mate_place, place) if paired else nothing).alias("mate_location"),
        _template_length().alias("template_length"),
        *cut,
    )  # fmt: skip


def _flag(*, paired: bool) -> pl.Expr:
    """The bits of a row."""
    bits: list[tuple[pl.Expr | str, int]] = [("nowhere", UNMAPPED), ("extra", SUPPLEMENTARY), (pl.col("strand") < 0, REVERSE)]
    if paired:
        bits += [
            (pl.col("key") % 2 == 0, FIRST),
            (pl.col("key") % 2 == 1, SECOND),
            (pl.col("mate_chromosome").is_null(), MATE_UNMAPPED),
            (pl.col("mate_strand") < 0, MATE_REVERSE),
            (pl.col("proper") & ~pl.col("extra"), PROPER),
        ]
    return pl.sum_horizontal(PAIRED * paired, *(pl.when(said).then(bit).otherwise(0) for said, bit in bits))


def _template_length() -> pl.Expr:
    """From 5' end to 5' end of a pair, both included; 0 for other chromosomes."""
    here, there = (pl.when(pl.col(f"{mate}strand") < 0).then(pl.col(f"{mate}stop") - 1).otherwise(f"{mate}start") for mate in ("", "mate_"))
    same = pl.col("chromosome") == pl.col("mate_chromosome")
    return pl.when(same).then(there - here + (there - here).sign()).otherwise(0)
