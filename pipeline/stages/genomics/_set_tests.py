"""The tests of one set of variants: its burden masks, variance components, and what combines them. Not a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.backend.arrays import array_module, to_host
from pipeline.kernels.genotype_block import GenotypeBlock
from pipeline.kernels.p_values import z_test_p_values
from pipeline.kernels.predicted_binary import PredictedMethod
from pipeline.kernels.predicted_binary_design import PredictedBinary
from pipeline.kernels.predicted_scan import associate_predicted
from pipeline.kernels.set_scores import Burden, alt_counts, alt_totals, burden_masks, set_scores
from pipeline.kernels.variance_components import SetCovariance, combination_weights, set_tests, variant_weights
from pipeline.stages.genomics._binary_sets import binary_scores, binary_tests, burden_growth
from pipeline.stages.genomics._joint_tests import Model, Tested, joint_rows, row_of

Test = Literal["burden", "skat", "skat_o", "skat_o_acat", "acat_v", "acat_o", "burden_acat", "burden_acat_equal", "sbat", "gene_p"]
COMPONENTS = ("skat", "skat_o", "skat_o_acat", "acat_v", "acat_o")
SINGLETON, ALL = "singleton", "all"
_VARIES = 1e-10
_SINGLE = ("beta", "standard_error", "statistic", "effect_allele_frequency", "n")


@dataclass(frozen=True)
class SetTests:
    """Which tests of a set are made, and of which variants."""

    tests: tuple[Test, ...]
    burden: Burden
    bins: tuple[float, ...]
    """Greatest ALT frequencies of the burden masks, ascending."""
    component_frequency: float
    """That of the variants of variance-component tests."""
    singletons: bool
    collapsed_mac: int
    """Variants of at most as many copies of ALT are one, in variance-component tests."""
    min_mac: float
    weights: tuple[float, float]
    method: PredictedMethod
    screen: float
    groups: Mapping[str, Sequence[str]]
    """Masks, by the name of a group, of which the tests of all masks are made once more."""

    def of(self, block: GenotypeBlock, masks: Mapping[str, NDArray[np.bool_]], model: Model) -> tuple[list[Tested], int]:
        """The rows of a set whose variants are the block's, and how many masks were too rare; `masks` says which variants each has."""
        xp = block.xp
        counts, used = alt_counts(block), model.known.any(axis=1)
        totals, called = alt_totals(counts, xp.asarray(used))
        frequency = totals / np.maximum(2 * called, 1)
        minor = np.minimum(totals, 2 * called - totals)
        chosen = self._chosen(masks, totals, frequency, minor)
        if not chosen:
            return [], 0
        members = np.array([own for _, _, own in chosen])
        rows = burden_masks(counts, members, self.burden)
        carried = alt_totals(rows, xp.asarray(used))
        most = np.maximum(1, members.sum(axis=1)) if self.burden == "sum" else 1
        enough = np.minimum(carried[0], 2 * carried[1] * most - carried[0]) >= self.min_mac
        kept = [one for one, there in zip(chosen, enough, strict=True) if there]
        if not kept:
            return [], len(chosen)
        rows, members = rows[xp.asarray(np.flatnonzero(enough))], members[enough]
        found = self._burdens(rows, kept, model)
        if {*self.tests} & {*COMPONENTS}:
            found += self._components(counts, totals, kept, model)
        names = [mask for mask, _, _ in kept]
        found += joint_rows(rows, names, found, model, (self.burden == "max", bool({"sbat", "gene_p"} & {*self.tests}), self.groups))
        order = {name: place for place, name in enumerate(("burden", *COMPONENTS))}
        wanted = {*self.tests} | {f"sbat_{sign}" for sign in ("positive", "negative") if "sbat" in self.tests}
        found = [row for row in found if row.test in wanted]
        joint = [row for row in found if not row.bin]
        own = sorted((row for row in found if row.bin), key=lambda row: (row.trait, order[row.test]))
        return own + joint, len(chosen) - len(kept)

    def _chosen(
        self, masks: Mapping[str, NDArray[np.bool_]], totals: Any, frequency: Any, minor: Any
    ) -> list[tuple[str, str, NDArray[np.bool_]]]:
        """Mask, bin and variants of every burden mask that has some."""
        seen = minor > 0
        found = list[tuple[str, str, NDArray[np.bool_]]]()
        for name, own in masks.items():
            single = [(SINGLETON, totals == 1)] if self.singletons else []
            bins = [*single, *((label_of(bound), (frequency <= bound) | (totals == 1)) for bound in self.all_bins)]
            found += [(name, label, own & seen & low) for label, low in bins if (own & seen & low).any()]
        return found

    @property
    def all_bins(self) -> tuple[float, ...]:
        """The burden masks' bins, with that of the variance components where they are asked for."""
        more = {self.component_frequency} if {*self.tests} & {*COMPONENTS} else set[float]()
        return tuple(sorted({*self.bins} | more))

    def _burdens(self, rows: Any, kept: Sequence[Any], model: Model) -> list[Tested]:
        """One test a mask and trait."""
        summed = np.array([own.sum() for _, _, own in kept]) if self.burden == "sum" else None
        numbers = self._associated(rows, model, summed)
        frequency = numbers.pop("effect_allele_frequency")
        found = list[Tested]()
        for place, (mask, label, own) in enumerate(kept):
            variants = int(own.sum())
            for trait in np.flatnonzero(~np.isnan(numbers["beta"][place])).tolist():
                values = {name: float(array[place, trait]) for name, array in numbers.items()}
                values["frequency"] = float(frequency[place, trait]) / (variants if self.burden == "sum" else 1)
                found.append(Tested(trait, mask, label, "burden", variants, **values))
        return found

    def _associated(self, rows: Any, model: Model, summed: Any) -> dict[str, Any]:
        """Numbers `float64[k, t]` of single tests of masks, on the host."""
        if isinstance(model, PredictedBinary):
            found = binary_tests(rows, model, (self.method, self.screen), summed=summed)
            del found["test"]
            return found
        xp = array_module(rows)
        result = associate_predicted(GenotypeBlock(None, xp.where(rows < 0, xp.nan, rows).astype(xp.float32), rows.shape[1]), model)
        p_value, logarithm = z_test_p_values(result.statistic)
        numbers = {name: to_host(getattr(result, name)) for name in _SINGLE}
        return numbers | {"p_value": to_host(p_value), "neg_log_10_p_value": to_host(logarithm)}

    def _components(self, counts: Any, totals: Any, kept: Sequence[Any], model: Model) -> list[Tested]:
        """SKAT and its kin of the masks of their bin: variants of few copies of ALT are one row a mask; of a frequent ALT it is REF."""
        xp = array_module(counts)
        bin_of = label_of(self.component_frequency)
        tested = [(mask, own) for mask, label, own in kept if label == bin_of]
        if not tested:
            return []
        rare = totals <= self.collapsed_mac
        common = np.flatnonzero(~rare & np.any([own for _, own in tested], axis=0))
        together = [(mask, own & rare) for mask, own in tested if (own & rare).any()]
        collapsed = burden_masks(counts, np.array([own for _, own in together]).reshape(len(together), len(rare)))
        rows = xp.concatenate([counts[xp.asarray(common)], collapsed])
        carried = alt_totals(rows, xp.asarray(model.known.any(axis=1)))
        own_frequency = carried[0] / np.maximum(2 * carried[1], 1)
        scores, covariances = self._scores(rows, model)
        varies = np.diagonal(covariances, axis1=1, axis2=2).min(axis=0) > _VARIES * np.maximum(carried[0], 1)
        weights = np.where(own_frequency > 0.5, -1, 1) * variant_weights(own_frequency, self.weights)
        found, last = list[Tested](), {mask: len(common) + place for place, (mask, _) in enumerate(together)}
        sets = list[tuple[str, Any, NDArray[np.int64]]]()
        for mask, own in tested:
            places = [place for place, variant in enumerate(common) if own[variant]] + ([last[mask]] if mask in last else [])
            at = np.array([place for place in places if varies[place]], np.int64)
            if len(at) and weights[at].any():
                sets.append((mask, own, at))
        growth = self._growth(rows, [at for _, _, at in sets], weights, (scores, covariances), model)
        for (mask, own, at), larger in zip(sets, growth, strict=True):
            scaled, of_variants = weights[at], combination_weights(own_frequency[at], self.weights)
            shared = [
                SetCovariance.of(one[np.ix_(at, at)] * np.outer(scaled, scaled) * factor)
                for one, factor in zip(covariances, larger, strict=True)
            ]
            for trait in range(scores.shape[1]):
                own_variance = np.diag(covariances[trait % len(shared)])[at]
                alone = z_test_p_values(scores[at, trait] / np.sqrt(own_variance))[1]
                logarithms = set_tests(shared[trait % len(shared)], scaled * scores[at, trait], alone, of_variants)
                found += [row_of(trait, mask, bin_of, test, int(own.sum()), one) for test, one in logarithms.items()]
        return found

    def _scores(self, rows: Any, model: Model) -> tuple[Any, Any]:
        """Scores `[v, t]` and their covariances `[1, v, v]`, or `[t, v, v]` of binary traits."""
        if isinstance(model, PredictedBinary):
            return binary_scores(rows, model, (self.method, self.screen))
        scores, covariance = set_scores(rows, model)
        return scores, covariance[None]

    def _growth(self, rows: Any, sets: Sequence[NDArray[np.int64]], weights: Any, moments: tuple[Any, Any], model: Model) -> Any:
        """By how much the covariances of sets of rows grow, `[k, t]` of binary traits; others' stay."""
        if not isinstance(model, PredictedBinary) or not sets:
            return np.ones((len(sets), len(moments[1])))
        of_sets = np.zeros((len(sets), len(weights)))
        for own, at in zip(of_sets, sets, strict=True):
            own[at] = weights[at]
        return burden_growth(rows, of_sets, moments, model, (self.method, self.screen))


def label_of(bound: float) -> str:
    """What a bin is called."""
    return ALL if bound >= 1 else f"{bound:g}"
