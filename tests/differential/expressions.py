"""Random expressions over the columns of the random tables: each as a pair, our SQL and DuckDB's.

Where docs/expressions.md says something else than DuckDB's manual, DuckDB's text is written so that it says what the page says: whole
numbers are Int64, a division by zero is null, floors and remainders follow the divisor's sign, round goes to the even digit. Left out
because both are right: upper of 'ß' and reverse of combining characters.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

Pair = tuple[str, str]
Pairs = st.SearchStrategy[Pair]


def same(*texts: str) -> Pairs:
    """What both write alike."""
    return st.sampled_from([(text, text) for text in texts])


def made(ours: str, theirs: str, *parts: Pairs) -> Pairs:
    """A text of others: {0} is the first part; doubled where `theirs` is ''."""
    return st.tuples(*parts).map(lambda found: (ours.format(*(a for a, _ in found)), (theirs or ours).format(*(b for _, b in found))))


def recursive(leaves: Pairs, grown: Callable[[Pairs], Pairs]) -> Pairs:
    """Expressions of a few levels."""
    return st.recursive(leaves, grown, max_leaves=4)


EXTREME = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def whole(*names: str) -> Pairs:
    """Columns of whole numbers, which are Int64 in arithmetic."""
    return st.sampled_from([(name, f"cast({name} as bigint)") for name in names])


INTS: Pairs = whole("key") | same("0", "1", "-3", "7", "1000")
NARROW = whole("small", *EXTREME)
WIDE = st.sampled_from([(f"cast({name} as bigint)",) * 2 for name in ("small", *EXTREME)])
FLOAT_COLUMNS = same("ratio") | st.just(("cast(share as double)", "cast(share as double)"))
TEXTS: Pairs = same("word", "'b '", "'x-y-z'", "''")
DAYS: Pairs = same("day", "date '2021-01-01'")
ROUNDED = [f"try_cast({name} as {to})" for name in ("ratio", "price") for to in ("tinyint", "int", "bigint")]
ROUNDED += [f"try_cast({name} as {to})" for name in ("small", "int16", "uint32", "int64") for to in ("tinyint", "smallint", "int")]
ROUNDED += [f"case when {name} between 0 and 100 then cast({name} as tinyint) end" for name in ("small", "int64", "uint32", "ratio")]
REMAINDER = "((({0}) % nullif({1}, 0)) + ({1})) % nullif({1}, 0)"
FLOOR = "(({0}) - (" + REMAINDER + ")) // nullif({1}, 0)"
TRUNCATED = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
ZONED = [f"{value} at time zone '{zone}'" for value in ("clock at time zone 'Europe/Berlin'", "moment") for zone in ("UTC", "Asia/Tokyo")]
PARTS = ("year", "quarter", "month", "week", "day", "doy", "dow", "isodow", "isoyear", "decade", "century")


def grown_integers(inner: Pairs) -> Pairs:
    return st.one_of(
        *(made(f"({{0}} {op} {{1}})", "", inner, inner) for op in "+-*"),
        made("({0} // {1})", f"({FLOOR})", inner, inner),
        made("({0} % {1})", f"({REMAINDER})", inner, inner),
        made("abs({0})", "", inner),
        made("coalesce({0}, {1})", "", inner, inner),
        made("nullif({0}, {1})", "", inner, inner),
        made("greatest({0}, {1})", "", inner, inner),
        made("least({0}, {1})", "", inner, inner),
        made("case when {0} > {1} then {1} else {2} end", "", inner, inner, inner),
        made("-({0})", "", inner),
    )


integers = recursive(INTS | WIDE | same(*ROUNDED), grown_integers)
parts = st.one_of(
    made("length({0})", "", TEXTS),
    made("octet_length({0})", "octet_length(encode({0}))", TEXTS),
    *(made(f"strpos({{0}}, {other})", f"coalesce(strpos({{0}}, {other}), 0)", TEXTS) for other in ("'b'", "'.'", "'7'", "''", "code")),
    made("cast({0} as int)", "({0} - date '1970-01-01')", DAYS),
    made("date_part('epoch', clock)", "cast(date_part('epoch', clock) as double)"),
    made("cast(flag as int)", ""),
    same("case when word ~ '^[0-9]{1,9}$' then cast(word as int) end").map(
        lambda pair: (pair[0], pair[0].replace("word ~", "word similar to"))
    ),
    made("len(string_split({0}, 'é'))", "", TEXTS),
    *(made(f"date_part('{part}', {{0}})", "", DAYS) for part in PARTS),
    *(made(f"date_part('{part}', clock)", "") for part in (*PARTS, "hour", "minute", "second")),
)


def _grown_floats(inner: Pairs) -> Pairs:
    """Sums, products and quotients take an infinity as it is; for all else it is null."""
    return st.one_of(
        *(made(f"({{0}} {op} {{1}})", "", inner, inner) for op in "+-*"),
        made("({0} / {1})", "({0} / nullif({1}, 0))", inner, inner),
        _of_finite(finite(inner)),
    )


def _of_finite(inner: Pairs) -> Pairs:
    return st.one_of(
        made("round({0}, 1)", "round_even({0}, 1)", same("ratio")),
        made("floor({0})", "", inner),
        made("ceil({0})", "", inner),
        made("sqrt({0})", "case when {0} >= 0 then sqrt({0}) end", inner),
        made("ln({0})", "case when {0} > 0 then ln({0}) end", inner),
        made("log10({0})", "case when {0} > 0 then log10({0}) end", inner),
        made("abs({0})", "", inner),
        made("coalesce({0}, {1})", "", inner, inner),
        made("if({0} > {1}, {0}, {1})", "case when {0} > {1} then {0} else {1} end", inner, inner),
        made("greatest({0}, {1})", "", inner, inner),
    )


def finite(value: Pairs) -> Pairs:
    """A float as a column, a comparison or a function has it: null where it is no finite number."""
    return value.map(lambda pair: (pair[0], f"finite({pair[1]})"))


floats = recursive(
    st.one_of(
        FLOAT_COLUMNS,
        st.sampled_from([("1.5", "1.5::double"), ("-0.25", "-0.25::double"), ("1e3", "1e3")]),
        made("({0} / {1})", "(cast({0} as double) / nullif({1}, 0))", INTS, INTS),
        made("cast({0} as double)", "", INTS | WIDE),
        made("try_cast({0} as double)", "", same("'1.5'", "'n/a'")),
    ),
    _grown_floats,
)


def _grown_texts(inner: Pairs) -> Pairs:
    return st.one_of(
        made("({0} || {1})", "", inner, inner),
        made("lower({0})", "", inner),
        made("concat({0}, {1})", "", inner, inner),
        made("concat_ws('-', {0}, {1})", "", inner, inner),
        *(made(f"{name}({{0}}, 2)", "", inner) for name in ("left", "right", "substr")),
        made("substr({0}, 2, 3)", "", inner),
        made("replace({0}, 'a', '--')", "", inner),
        made("trim({0})", "", inner),
        made("ltrim({0}, '1-')", "", inner),
        made("lpad({0}, 3, '*')", "", inner),
        made("rpad({0}, 4, 'é')", "", inner),
        made("split_part({0}, '-', 2)", "", inner),
        *(made(f"string_split({{0}}, '{by}')[{n}]", "", inner) for by in ("-", "") for n in (2, -1)),
        made("regexp_replace({0}, '([0-9]+)(é)?', '<\\2\\1>', 'g')", "", inner),
        made("regexp_replace({0}, '[a-c]*', '$1')", "", inner),
        made("regexp_extract({0}, '([a-z]+)-?(.)?', 2)", "", inner),
        made("coalesce({0}, {1})", "", inner, inner),
        made("nullif({0}, {1})", "", inner, inner),
        made("case when {0} < {1} then {0} end", "", inner, inner),
    )


texts = recursive(TEXTS | made("cast({0} as varchar)", "", INTS | WIDE | DAYS), _grown_texts)
days = st.one_of(
    DAYS,
    made("coalesce({0}, {1})", "", DAYS, DAYS),
    made("cast(cast({0} as int) + 30 as date)", "({0} + 30)", st.just(("date '2020-02-01'", "date '2020-02-01'"))),
    *(made(f"date_trunc('{part}', {{0}})", f"cast(date_trunc('{part}', {{0}}) as date)", DAYS) for part in TRUNCATED[3:]),
    made("date({0})", "cast({0} as date)", same("'2020-02-29'")),
)


def compared(value: Pairs) -> Pairs:
    """A condition on such values."""
    return st.one_of(
        *(made(f"({{0}} {op} {{1}})", "", value, value) for op in ("=", "<>", "<", "<=", ">", ">=")),
        made("({0} <=> {1})", "({0} is not distinct from {1})", value, value),
        made("({0} is distinct from {1})", "", value, value),
        made("({0} between {1} and {2})", "", value, value, value),
        made("({0} in ({1}, {2}))", "", value, value, value),
        made("({0} is null)", "", value),
    )


like = [made(f"(word {op} '{text}')", "") for op in ("like", "not like", "ilike") for text in ("%a%", "Z_rich", "%", "", "1%")]
like += [made("(word ~ '^[0-9]+$')", "regexp_matches(word, '^[0-9]+$')")]
like += [made("starts_with({0}, 'x')", "", TEXTS), made("ends_with({0}, 'z')", "", TEXTS)]
moments = same("clock", "timestamp '2021-03-28 01:30:00'", *(f"date_trunc('{part}', clock)" for part in TRUNCATED), *ZONED)
conditions_of_values = st.one_of(same("flag", "true"), *map(compared, (integers, finite(floats), TEXTS, DAYS, moments)), *like)


def logic(leaves: Pairs) -> Pairs:
    """Conditions joined by and, or, not and the like."""
    return recursive(
        leaves,
        lambda inner: st.one_of(
            made("({0} and {1})", "", inner, inner),
            made("({0} or {1})", "", inner, inner),
            made("(not {0})", "", inner),
            made("({0} xor {1})", "(case when {0} is null or {1} is null then null else {0} <> {1} end)", inner, inner),
            made("coalesce({0}, false)", "", inner),
        ),
    )


def conditions() -> Pairs:
    """A condition."""
    return logic(conditions_of_values)


def values() -> Pairs:
    """A value of any kind."""
    return st.one_of(integers, parts, finite(floats), texts, days, moments, conditions())
