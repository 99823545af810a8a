"""The functions that a query may call: each was tried against DuckDB on missing, empty, negative and huge values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import ExpressionError, near

if TYPE_CHECKING:
    from sqlglot import exp

SAME = """abs sign ceil floor round trunc exp ln log sqrt cbrt pi degrees radians sin cos tan cot asin acos atan atan2 log1p
bit_count greatest least coalesce nullif if case cast lower upper initcap trim length left right substring replace
reverse concat octet_length date year month day quarter week hour minute second extract count sum avg min max median
stddev variance corr dayofyear dayofweek"""
OTHERS = """pow=power trycast=try_cast bitlength=bit_length concatws=concat_ws pad=lpad startswith=starts_with endswith=ends_with
strposition=strpos regexplike=regexp_matches splitpart=split_part weekofyear=weekofyear dayofweekiso=isodow
timestamptrunc=date_trunc datetrunc=date_trunc timetounix=epoch dateadd=date_add logicaland=bool_and logicalor=bool_or
stddevpop=stddev_pop stddevsamp=stddev_samp variancepop=var_pop covarsamp=covar_samp covarpop=covar_pop
percentilecont=quantile_cont"""
BEFORE = "regexpreplace=regexp_replace regexpextract=regexp_extract timetostr=strftime strtotime=strptime"
# By what the tree calls them: how they are written.
FUNCTIONS = {name: name for name in SAME.split()} | dict(pair.split("=") for pair in (OTHERS + " " + BEFORE).split())
REMEDIES = {
    **dict.fromkeys(("percentiledisc", "mode"), "The stage aggregate has quantile and mode"),
    **dict.fromkeys(("explode", "unnest"), "The stage explode makes rows of a list"),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), "NaN and infinities are null: write x is null"),
    **dict.fromkeys(("bitwiseandagg", "bitwiseoragg", "bitwisexoragg"), "bool_and and bool_or are there"),
    "countif": "Write count(*) filter (where x)",
    **dict.fromkeys(("array", "struct"), "Lists and structures are for stages"),
    **dict.fromkeys(("grouping", "groupingid"), "Write a SELECT for each grouping, with UNION ALL between"),
}


def check_functions(query: exp.Query, dialect: str) -> None:
    """Raise ExpressionError for a function that is not there, with the nearest that is, or what has it."""
    from sqlglot import exp

    for node in query.find_all(exp.Func):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
        if name in FUNCTIONS or isinstance(node, exp.And | exp.Or | exp.Xor | exp.Exists):
            continue
        written = name if isinstance(node, exp.Anonymous) else node.sql(dialect).partition("(")[0].lower()
        remedy = f" {REMEDIES[name]}." if name in REMEDIES else near(written, FUNCTIONS.values())
        raise ExpressionError(f"{node.sql(dialect)}: a query has no function {written!r}.{remedy} Many others are in a stage derive before")
