"""Codons by two genetic codes, and bases as numbers."""

from __future__ import annotations

from itertools import product

import numpy as np

from pipeline.kernels.genetic_code import base_codes, complement, translated
from tests.stages.genomics.gene_models import CODE

CODONS = ["".join(bases) for bases in product("ACGT", repeat=3)]


def read(codons: list[str], *, mitochondrial: bool = False) -> str:
    codes = base_codes(np.frombuffer("".join(codons).encode(), np.uint8)).reshape(-1, 3)
    return bytes(translated(codes, np.full(len(codons), mitochondrial))).decode()


def test_translated__is_the_standard_code() -> None:
    assert read(CODONS) == "".join(CODE[codon] for codon in CODONS)
    assert read(["ATG", "TAA", "TGG", "gcN", "A-A"]) == "M*WXX"


def test_translated__of_mitochondria_differs_in_four_codons() -> None:
    """AGA and AGG stop, ATA is methionine, TGA tryptophan (Barrell, Bankier & Drouin 1979; Anderson et al. 1981)."""
    both = zip(CODONS, read(CODONS), read(CODONS, mitochondrial=True), strict=True)
    assert {codon: amino_acid for codon, standard, amino_acid in both if standard != amino_acid} == {
        "AGA": "*",
        "AGG": "*",
        "ATA": "M",
        "TGA": "W",
    }


def test_complement__pairs_known_bases() -> None:
    codes = base_codes(np.frombuffer(b"ACGTacgtN-", np.uint8))
    assert complement(codes).tolist() == [3, 2, 1, 0, 3, 2, 1, 0, 4, 4]
