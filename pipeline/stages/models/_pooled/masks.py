"""Masks that hide a site's sums and cancel in the sum over all sites (Bonawitz and others 2017, without its recovery of lost sites).

Each two sites share a secret, from which both derive the same numbers; the site that comes first adds them, the other subtracts them,
modulo a power of two. To whoever lacks a secret of a site, the site's masked sums are uniform numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pipeline.kernels.fixed_digits import BITS as DIGIT_BITS
from pipeline.kernels.fixed_digits import carried, numbers_of

BITS = 512
MODULUS = 1 << BITS
HEX_DIGITS = BITS // 4
RATE = 136
"""Bytes that SHAKE-256 takes at once: a key that fills them makes of it a function that nobody without the key can tell from chance."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Agreed:
    """What all sites of a study have agreed on: its name, the sites in order, the columns (intercept, features, target) and the unit."""

    study: str
    sites: tuple[str, ...]
    columns: tuple[str, ...]
    digits: int


@dataclass(frozen=True)
class Pads:
    """What a site derives its masks from in one study: a key for each other site, and 1 or -1, by which it adds or subtracts."""

    keys: tuple[tuple[bytes, int], ...] = field(repr=False)

    @staticmethod
    def of(agreed: Agreed, site: str, secrets: Mapping[str, str]) -> Pads:
        """Of the secrets that a site shares, by the other site: HMAC-SHA512 of all that is agreed and the pair, under the secret."""
        place = agreed.sites.index
        pairs = [
            (secret, (site, other), 1) if place(site) < place(other) else (secret, (other, site), -1) for other, secret in secrets.items()
        ]
        return Pads(tuple((_key(agreed, secret, pair), sign) for secret, pair, sign in pairs))

    def digits(self, what: Sequence[Any], count: int, width: int) -> Array:
        """Masks of `count` numbers of `width` digits, not carried: `int64[count, width]`. No two names `what` have a number in common."""
        found, name = np.zeros((count, width), np.int64), json.dumps(list(what)).encode()
        for key, sign in self.keys:
            stream = hashlib.shake_256(key + name).digest(2 * count * width)
            found += sign * np.frombuffer(stream, "<u2").reshape(count, width).astype(np.int64)
        return found


def _key(agreed: Agreed, secret: str, pair: Sequence[str]) -> bytes:
    return hmac.digest(secret.encode(), json.dumps([asdict(agreed), *pair]).encode(), "sha512").ljust(RATE, b"\0")


def masks_of(pads: Pads, count: int) -> list[int]:
    """What a site adds to so many entries."""
    return [int(number) for number in numbers_of(carried(pads.digits(["sums"], count, BITS // DIGIT_BITS), BITS // DIGIT_BITS))]


def masked(number: int, mask: int) -> str:
    """A sum under its mask, as 128 hexadecimal digits."""
    return f"{(number + mask) % MODULUS:0{HEX_DIGITS}x}"


def unmasked(texts: Sequence[str]) -> int:
    """The sum of all sites' numbers for an entry, with its sign. Raises ValueError for a text that is no such number."""
    total = sum(int(text, 16) for text in texts) % MODULUS
    return total - MODULUS if total >> (BITS - 1) else total


def text_of(digits: Array) -> str:
    """Numbers `uint16[count, width]` below one another, each of its hexadecimal digits with the highest first."""
    return digits[:, ::-1].astype(">u2").tobytes().hex()


def digits_in(texts: Sequence[str], count: int, width: int) -> Array:
    """What `text_of` wrote, of each text `int64[texts, count, width]`. Raises ValueError for a text that it did not."""
    contents = [bytes.fromhex(text) for text in texts]
    if any(len(content) != 2 * count * width for content in contents):
        raise ValueError("a text has another length")
    numbers = np.frombuffer(b"".join(contents), ">u2").reshape(len(texts), count, width)
    return numbers[:, :, ::-1].astype(np.int64)
