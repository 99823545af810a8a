"""Every stage that is compared, by what to call it: a random case of each."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.differential import (
    aggregate_stages,
    encode_stages,
    expect_stages,
    feature_stages,
    keyed_stages,
    made_stages,
    privacy_stages,
    query_stages,
    reshape_stages,
    risk_stages,
    row_stages,
    time_stages,
    window_stages,
)
from tests.differential.cases import Case

STAGES: dict[str, Callable[[], st.SearchStrategy[Case]]] = {
    "select": row_stages.select,
    "rename": row_stages.rename,
    "cast": row_stages.cast,
    "filter": row_stages.filtered,
    "derive": row_stages.derive,
    "union": row_stages.union,
    "union of some columns": reshape_stages.union_of_some,
    "pivot": reshape_stages.pivot,
    "unpivot": reshape_stages.unpivot,
    "explode": reshape_stages.explode,
    "unnest": reshape_stages.unnest,
    "sample": row_stages.sample,
    "split": row_stages.split,
    "join": keyed_stages.join,
    "join by a condition": keyed_stages.conditional_join,
    "join validated": keyed_stages.validated_join,
    "aggregate": keyed_stages.aggregate,
    "aggregate shapes": aggregate_stages.aggregate,
    "aggregate of distinct values": aggregate_stages.of_distinct,
    "sql": query_stages.query,
    "sort": keyed_stages.sort,
    "drop_duplicates": keyed_stages.drop_duplicates,
    "window": window_stages.window,
    "top_n": window_stages.top_n,
    "resample": time_stages.resample,
    "as_of": time_stages.as_of,
    "interpolate": time_stages.interpolated,
    "sessionize": time_stages.sessionized,
    "expect": expect_stages.expect,
    "k_anonymity": privacy_stages.k_anonymity,
    "value_at_risk": risk_stages.value_at_risk,
    "fill_missing numbers": feature_stages.fill_numbers,
    "fill_missing by group": feature_stages.fill_by_group,
    "fill_missing most frequent": feature_stages.fill_most_frequent,
    "fill_missing constant": feature_stages.fill_constant,
    "categorify": feature_stages.categorify,
    "categorify with a bucket": feature_stages.categorify_with_bucket,
    "standardize": feature_stages.standardize,
    "rescale": encode_stages.rescale,
    "clip": encode_stages.clip,
    "bucketize": encode_stages.bucketize,
    "count_encode": encode_stages.count_encode,
    "drop_low_variance": encode_stages.drop_low_variance,
    "hash_bucket": made_stages.hash_bucket,
    "one_hot": made_stages.one_hot,
    "date_parts": made_stages.date_parts,
    "target_encode": encode_stages.target_encode,
}
