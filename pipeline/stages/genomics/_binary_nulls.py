"""Null traits of binary traits: cases drawn by what the model without a variant says of each person. Not a stage.

A null trait has as many cases as the trait, drawn at random with everybody's own chance by systematic sampling in a random order (Madow
1949, Ann Math Stat 20:333-354): covariates and predictions explain it as they explain the trait, and no variant does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DataError
from pipeline.kernels.design import people_of_groups
from pipeline.kernels.logistic_design import LogisticDesign, null_coefficients
from pipeline.kernels.predicted_binary_design import PredictedBinary, PredictedBinaryDesign

Floats = NDArray[np.float64]

_MODELS_BYTES = 64 << 20


def drawn_cases(chances: Floats, random: np.random.Generator) -> Floats:
    """1 for cases, 0 for others, `float64[n]`, each with a chance of `chances: float64[n]`; as many cases as these add up to."""
    order = random.permutation(len(chances))
    reached = np.floor(np.cumsum(chances[order]) + random.random())
    cases = np.zeros(len(chances))
    cases[order] = np.diff(reached, prepend=0.0)
    return cases


def binary_with_nulls(design: LogisticDesign, nulls: int, seed: int) -> LogisticDesign:
    """The design with each trait before its null traits. Raises DataError where the covariates separate a null trait's cases."""
    signs, coefficients = [], []
    for name, own, fitted in zip(design.trait_names, design.signs, design.coefficients, strict=True):
        signs.append(own)
        coefficients.append(fitted)
        random, chances = _random(name, seed), 1 / (1 + np.exp(-(fitted @ design.basis)))
        for _ in range(nulls):
            signs.append(2 * drawn_cases(chances, random) - 1)
            coefficients.append(_fitted(name, design.basis, signs[-1]))
    names = tuple(name for name in design.trait_names for _ in range(1 + nulls))
    return replace(design, signs=np.stack(signs), coefficients=np.stack(coefficients), trait_names=names)


def null_models(models: PredictedBinary, place: int, nulls: int, seed: int) -> Iterator[PredictedBinary]:
    """The models of a trait's null traits, some at a time; predictions explain these as they explain the trait."""
    design, name = models.design, models.trait_names[place]
    own = design.known[:, place]
    offset = np.where(own, models.log_odds[place] - design.basis @ models.coefficients[place], 0.0)
    chances, random = models.probabilities()[place][own], _random(name, seed)
    size = max(1, _MODELS_BYTES // (8 * design.basis.size))
    for start in range(0, nulls, size):
        number = min(size, nulls - start)
        cases = np.zeros((len(own), number))
        cases[own] = np.stack([drawn_cases(chances, random) for _ in range(number)], axis=1)
        known = np.repeat(own[:, None], number, axis=1)
        groups, masks = people_of_groups(known, own)
        basis = np.where(own[:, None], design.basis, 0.0)
        some = PredictedBinaryDesign(masks[0], basis, known, (name,) * number, groups, masks[1:], cases, design.firth)
        try:
            yield some.less(np.broadcast_to(offset, (number, len(own))))
        except DataError as error:
            raise _unfitted(name, error) from error


def _random(trait: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, crc32(trait.encode())])


def _fitted(name: str, basis: Floats, signs: Floats) -> Floats:
    try:
        return np.asarray(null_coefficients(name, basis, signs))
    except DataError as error:
        raise _unfitted(name, error) from error


def _unfitted(name: str, error: DataError) -> DataError:
    return DataError(f"a null trait of {name!r} cannot be fitted, so calibrate counts nothing. {error}")
