"""Bases as small numbers, and the amino acids that codons stand for."""

from __future__ import annotations

from pipeline.backend.arrays import array_module
from pipeline.kernels.genotypes import Array

UNKNOWN = 4
"""The code of every letter but A, C, G and T, which are 0 to 3."""
STOP, ANY, START = ord("*"), ord("X"), ord("M")
_STANDARD = b"FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
_MITOCHONDRIAL = b"FFLLSSSSYY**CCWWLLLLPPPPHHQQRRRRIIMMTTTTNNKKSS**VVVVAAAADDEEGGGG"
_TABLES = (_STANDARD, _MITOCHONDRIAL)
_NCBI_ORDER = (2, 1, 3, 0)  # where A, C, G and T stand in NCBI's tables, which go through T, C, A, G


def base_codes(letters: Array) -> Array:
    """Codes `uint8[n]` of the letters `uint8[n]` of a sequence: A, C, G, T in either case 0 to 3, all others 4."""
    xp = array_module(letters)
    codes = xp.full(256, UNKNOWN, xp.uint8)
    for code, letter in enumerate("ACGT"):
        codes[ord(letter)] = codes[ord(letter.lower())] = code
    return codes[letters]


def complement(codes: Array) -> Array:
    """Codes `uint8[n]` of the bases that pair with these; what is unknown stays so."""
    xp = array_module(codes)
    return xp.where(codes < UNKNOWN, 3 - codes, codes).astype(xp.uint8)


def translated(codons: Array, mitochondrial: Array) -> Array:
    """Amino acids `uint8[c]`, letters, of codons `uint8[c, 3]` of base codes; `bool[c]` says which are read by table 2 and not by table 1.

    X stands for a codon with an unknown base, * for a stop. Source: NCBI's genetic codes 1 and 2 (vertebrate mitochondria).
    """
    xp = array_module(codons)
    places = xp.asarray([*_NCBI_ORDER, 0])[codons]
    index = places[:, 0] * 16 + places[:, 1] * 4 + places[:, 2]
    tables = xp.asarray([list(table) for table in _TABLES], dtype=xp.uint8)
    known = (codons < UNKNOWN).all(axis=1)
    return xp.where(known, tables[mitochondrial.astype(xp.int64), index], ANY).astype(xp.uint8)
