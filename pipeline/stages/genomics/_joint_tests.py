"""The tests of all masks of a set together, or of a group of them: burdens combined, with effects of one sign, and GENE_P. Not a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.cauchy import cauchy_combination
from pipeline.kernels.p_values import z_of_neg_log_10_p
from pipeline.kernels.predicted_binary_design import PredictedBinary
from pipeline.kernels.predicted_scan import PredictedDesign
from pipeline.kernels.set_scores import joint_products
from pipeline.kernels.sign_constrained import independent, mixture_weights, sign_constrained_tests
from pipeline.kernels.variance_components import combination_weights

Model = PredictedDesign | PredictedBinary


@dataclass(frozen=True)
class Tested:
    """A row of results: a trait's place, the mask and bin ('' for tests of all masks), the test and its numbers (NaN: none)."""

    trait: int
    mask: str
    bin: str
    test: str
    variants: int
    beta: float = float("nan")
    standard_error: float = float("nan")
    statistic: float = float("nan")
    frequency: float = float("nan")
    n: float = float("nan")  # of a burden the people who have a call; none of the others, which are of everybody
    p_value: float = float("nan")
    neg_log_10_p_value: float = float("nan")


def joint_rows(
    rows: Any,
    masks: Sequence[str],
    found: Sequence[Tested],
    model: Model,
    how: tuple[bool, bool, Mapping[str, Sequence[str]]],
) -> list[Tested]:
    """The tests of all burdens `rows: [k, n]`, of these `masks`, and of each group; `found` are the rows of single masks.

    `how` is whether burdens are weighted by their frequencies (as in regenie by the density of Beta(1, 25), whatever weighs variants,
    and of sums all count alike), whether signs are wanted, and the groups.
    """
    weighted, of_signs, groups = how
    more = list[Tested]()
    for group, own_masks in {"": tuple(dict.fromkeys(masks)), **groups}.items():
        places = np.flatnonzero([mask in own_masks for mask in masks])
        if not len(places):
            continue
        own = [row for row in found if row.mask in own_masks]
        some = rows[array_module(rows).asarray(places)]
        signs = _signs(some, model) if of_signs and isinstance(model, PredictedDesign) else {}
        more += [row for trait in range(len(model.trait_names)) for row in _of_trait((trait, group), own, signs.get(trait, ()), weighted)]
    return more


def _of_trait(of: tuple[int, str], found: Sequence[Tested], signs: Sequence[float], weighted: bool) -> list[Tested]:
    """The rows of a trait and group."""
    (trait, group), burdens = of, [row for row in found if row.trait == of[0] and row.test == "burden"]
    if not burdens:
        return []
    minor = np.array([min(row.frequency, 1 - row.frequency) for row in burdens])
    weights = combination_weights(minor) if weighted else None
    of_burdens = np.array([row.neg_log_10_p_value for row in burdens])
    joint = {"burden_acat": cauchy_combination(of_burdens, weights), "burden_acat_equal": cauchy_combination(of_burdens)}
    joint |= dict(zip(("sbat", "sbat_positive", "sbat_negative"), signs, strict=False))
    parts = [joint["burden_acat_equal"], *([joint["sbat"]] if "sbat" in joint else [])]
    for test in ("acat_v", "skat_o_acat"):
        own = [row.neg_log_10_p_value for row in found if row.trait == trait and row.test == test]
        parts += [cauchy_combination(np.array(own))] if own else []
    joint["gene_p"] = cauchy_combination(np.array(parts))
    return [row_of(trait, group, "", test, 0, one) for test, one in joint.items() if not np.isnan(one)]


def _signs(rows: Any, design: PredictedDesign) -> dict[int, tuple[float, float, float]]:
    """By trait SBAT's -log10 p, of both signs and of each."""
    found, people = dict[int, tuple[float, float, float]](), to_host(design.people)
    for group in design.groups:
        products, scores = joint_products(rows, design, group)
        kept = independent(products)
        if not len(kept):
            continue
        own = products[np.ix_(kept, kept)]
        weights = mixture_weights(own)
        found |= {
            trait: sign_constrained_tests(own, scores[kept, place], weights, float(people[trait]) - design.basis.shape[1])
            for place, trait in enumerate(group)
        }
    return found


def row_of(trait: int, mask: str, label: str, test: str, variants: int, logarithm: float) -> Tested:
    """A row of a test by its -log10 p, with the root of chi-square of one degree of freedom that has it."""
    root = float(z_of_neg_log_10_p(np.array([logarithm]))[0])
    return Tested(trait, mask, label, test, variants, statistic=root, p_value=10**-logarithm, neg_log_10_p_value=logarithm)
