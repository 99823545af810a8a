"""Masks that hide a site's sums and cancel in the sum over all sites (Bonawitz and others 2017, without its recovery of lost sites).

Each two sites share a secret, from which both derive the same number for an entry; the site that comes first adds it, the other subtracts
it, modulo 2^512. To whoever lacks a secret of a site, the site's masked sums are uniform numbers.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from pipeline.stages.models._pooled.sums import entries_of

BITS = 512
MODULUS = 1 << BITS
HEX_DIGITS = BITS // 4


@dataclass(frozen=True)
class Agreed:
    """What all sites of a study have agreed on: its name, the sites in order, the columns (intercept, features, target) and the unit."""

    study: str
    sites: tuple[str, ...]
    columns: tuple[str, ...]
    digits: int


@dataclass(frozen=True)
class Masks:
    """A number for each entry, which no message and no log shows."""

    numbers: tuple[int, ...] = field(repr=False)


def masks_of(agreed: Agreed, site: str, secrets: Mapping[str, str]) -> Masks:
    """What a site adds to its entries, in their order; `secrets` are those that it shares, by the other site."""
    place = agreed.sites.index
    pairs = [(secret, (site, other), 1) if place(site) < place(other) else (secret, (other, site), -1) for other, secret in secrets.items()]
    return Masks(
        tuple(
            sum(sign * _number(agreed, secret, pair, entry) for secret, pair, sign in pairs) % MODULUS
            for entry in entries_of(agreed.columns)
        )
    )


def _number(agreed: Agreed, secret: str, pair: Sequence[str], entry: Sequence[str]) -> int:
    """HMAC-SHA512 of everything agreed, the pair and the entry: no two entries, pairs or studies have a number in common."""
    message = json.dumps([asdict(agreed), *pair, *entry]).encode()
    return int.from_bytes(hmac.digest(secret.encode(), message, "sha512"))


def masked(number: int, mask: int) -> str:
    """A sum under its mask, as 128 hexadecimal digits."""
    return f"{(number + mask) % MODULUS:0{HEX_DIGITS}x}"


def unmasked(texts: Sequence[str]) -> int:
    """The sum of all sites' numbers for an entry, with its sign. Raises ValueError for a text that is no such number."""
    total = sum(int(text, 16) for text in texts) % MODULUS
    return total - MODULUS if total >> (BITS - 1) else total
