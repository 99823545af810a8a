"""GCTA's files of a relationship matrix: .grm.bin, .grm.N.bin and .grm.id, as GCTA, PLINK 2 and LDAK read them.

https://yanglab.westlake.edu.cn/software/gcta/#MakingaGRM: float32 of the lower triangle row by row, with the diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from pipeline.errors import DataError, JobError
from pipeline.format import JoinedOutput, Piece
from pipeline.formats._joined import join_files
from pipeline.tables.part import Part, Schema

COLUMNS = ("sample_id_1", "sample_id_2", "relationship", "variants_shared")


class GrmOutput(JoinedOutput):
    """GCTA's NAME.grm.bin, NAME.grm.N.bin and NAME.grm.id of what relationship_matrix gives: all pairs, row by row of the lower triangle.

    The .id has everyone's family, family_id_1 of the pair of a person with itself, or where there is none the sample_id as both.
    """

    name = "grm"

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Raise JobError for a table without the columns of pairs."""
        if missing := [name for name in COLUMNS if name not in columns]:
            raise JobError(f"a GRM needs the column {missing[0]!r}, which is not written here. Needed: {', '.join(COLUMNS)}")

    def write_piece(self, part: Part, axes: Mapping[str, pl.DataFrame], path: str) -> Mapping[str, int]:
        """The numbers, and the people of the diagonal. DataError for rows without one."""
        frame = part.frame
        if frame.select(pl.any_horizontal(pl.col(*COLUMNS).is_null()).any()).item():
            raise DataError("a pair of the relationships lacks a person, a relationship or its variants. Filter it out, or fill it in.")
        for member, column in (("grm.bin", "relationship"), ("grm.N.bin", "variants_shared")):
            Path(f"{path}.{member}").write_bytes(frame[column].cast(pl.Float32).to_numpy().astype("<f4").tobytes())
        family = "family_id_1" if "family_id_1" in frame.columns else "sample_id_1"
        same = frame.filter(pl.col("sample_id_1") == pl.col("sample_id_2")).select(
            pl.coalesce(family, "sample_id_1").cast(pl.String).alias("family_id"), pl.col("sample_id_1").cast(pl.String).alias("sample_id")
        )
        for name in reversed(same.columns):
            if len(bad := same.filter(pl.col(name).str.contains(r"\s|^$"))):
                raise DataError(
                    f"{name} {bad[name][0]!r} is empty or holds a space, which separates the fields of a .grm.id. Rename it before."
                )
        Path(f"{path}.grm.id").write_text(same.write_csv(include_header=False, separator="\t", quote_style="never"), encoding="utf-8")
        return {"grm.bin": frame.height, "grm.N.bin": frame.height, "grm.id": same.height}

    def join(self, pieces: Sequence[Piece], axes: Mapping[str, pl.DataFrame], stem: str) -> Mapping[str, int | None]:
        """The three files; the rows stand at the .grm.bin. DataError where the pairs are not those of a triangle."""
        pairs, people = (sum(piece.rows[member] for piece in pieces) for member in ("grm.bin", "grm.id"))
        if pairs != people * (people + 1) // 2:
            raise DataError(f"{people:,} people have {people * (people + 1) // 2:,} pairs with themselves, and {pairs:,} are written here")
        for member in ("grm.bin", "grm.N.bin", "grm.id"):
            join_files(f"{stem}.{member}", [piece.file(member) for piece in pieces])
        return {".grm.bin": pairs, ".grm.N.bin": None, ".grm.id": None}
