"""What cuDF runs and answers otherwise than Polars, with no word said: found in a translated query, so that a plan for a GPU refuses it.

Each rule stands in docs/gpu.md with the place in cuDF that it was read from. What our SQL writes in another form (sql/alike) passes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

# What both engines read alike of a regular expression. Rust's sets in sets, [[:alpha:]] and [a&&b], and its \< are characters to cuDF.
_CLASS = r"\[\^?\]?(?:\\.|[^\\\[\]&~-]|[&~](?![&~])|-(?!-))*\]"
_ALIKE = re.compile(rf"(?:{_CLASS}|\\[^pPxuUzQE0-9<>]|[^\\\[])*", re.DOTALL)
_ZONED = {"CastTimeUnit", "ConvertTimeZone", "ReplaceTimeZone", "TimeStamp"}
_NEAR = 2**62
WIDEST = 38  # digits; what has more outgrows Polars' decimals too, and fails there
BEHIND = 17  # digits behind the point that cuDF gives a float on its way to a decimal


def differences(translated: Any) -> list[str]:
    """What of a query that cuDF translated it would answer otherwise, each said once; empty where nothing is."""
    from cudf_polars.dsl.ir import Scan
    from cudf_polars.dsl.traversal import traversal

    found = dict[str, None]()
    for step in traversal([translated]):
        if isinstance(step, Scan) and step.typ != "parquet":
            found[f"its reader of {step.typ} takes bad values in silence"] = None
        every = list(traversal(list(_expressions(step))))
        checked = {cast for expression in every for cast in (*_checked(expression), *_of_sums(step, expression))}
        for expression in every:
            rule = RULES.get(type(expression).__name__)
            if rule and expression not in checked and (text := rule(expression)):
                found[text] = None
    return list(found)


def _expressions(value: Any) -> Iterator[Any]:
    """Every expression that a step of a query holds."""
    from cudf_polars.dsl.expr import Expr, NamedExpr
    from cudf_polars.dsl.ir import IR

    if isinstance(value, IR):
        for name in value._non_child:
            yield from _expressions(getattr(value, name))
    elif isinstance(value, NamedExpr):
        yield value.value
    elif isinstance(value, Expr):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _expressions(item)


def _checked(node: Any) -> list[Any]:
    """The casts that a node makes good: of what `when` looked at, turned back and compared, or of texts that stand there."""
    import polars as pl

    if type(node).__name__ != "Cast" or _whatever_it_holds(node):
        return []
    inner = node.children[0]
    if node.dtype.polars_type.is_decimal() and _is_round(inner):  # cuDF's translator puts one below the casts of floats
        values = inner.children[0]
        made = type(values).__name__ == "Ternary" and _looked_at(*values.children)
        return ([node] if made else []) + ([inner] if made and _is_rounded(values.children[1]) else [])
    if type(inner).__name__ == "Ternary" and _looked_at(*inner.children):
        return [node]
    if type(inner).__name__ == "Cast" and inner.children[0].dtype == node.dtype:
        return [node, inner]
    return [node] if inner.dtype.polars_type == pl.String and _fails_or_fits(inner) else []


def _looked_at(condition: Any, yes: Any, no: Any) -> bool:
    """Whether `when` asks for every column of the value, and gives null where it does not hold."""
    from cudf_polars.dsl.traversal import traversal

    asked, taken = ({node for node in traversal([root]) if type(node).__name__ == "Col"} for root in (condition, yes))
    return taken <= asked and getattr(no, "value", "") is None


def _is_round(node: Any) -> bool:
    return type(node).__name__ == "UnaryFunction" and node.name == "round"


def _is_rounded(node: Any) -> bool:
    """Whether floats were rounded before (sql/alike), so that doing it once more changes nothing."""
    if type(node).__name__ != "Ternary":
        return False
    quotient = node.children[1]
    return type(quotient).__name__ == "BinOp" and quotient.op.name == "TRUE_DIV" and _is_round(quotient.children[0])


def _fails_or_fits(text: Any) -> bool:
    """Whether every text that may come is one of those that stand there: 0, or one that is no number and fails."""
    if type(text).__name__ == "Literal":
        return text.value is None or text.value == "0" or not re.search("^[-+]?[0-9]+$", text.value)
    if type(text).__name__ == "Ternary":
        return all(map(_fails_or_fits, text.children[1:]))
    return getattr(text, "name", "") == "coalesce" and all(map(_fails_or_fits, text.children))


def _of_sums(step: Any, node: Any) -> list[Any]:
    """The cast that cuDF's translator itself puts over a sum of UInt64, which it takes for one of Int64: the bits are the same."""
    import polars as pl

    grouped = any(type(child).__name__ == "GroupBy" for child in step.children)
    types = [child.dtype.polars_type for child in node.children] + [node.dtype.polars_type]
    return [node] if grouped and type(node).__name__ == "Cast" and types == [pl.Int64, pl.UInt64] else []


def _cast(node: Any) -> str | None:
    import polars as pl

    old, new = node.children[0].dtype.polars_type, node.dtype.polars_type
    if text := _whatever_it_holds(node):
        return text
    if old.is_float() and new == pl.String:
        return "it writes floats with other digits"
    if old == pl.String and new.is_integer():
        return f"its cast of a text to {new} wraps numbers that are too large"
    if old.is_integer() and new.is_integer():
        if (old, new) == (pl.UInt32, pl.Int32) and type(node.children[0]).__name__ != "Col":
            return None  # a count, a length or a rank: cuDF has no more rows than Int32 holds
        known = getattr(node.children[0], "value", None)
        (least, most), (low, high) = (known, known) if isinstance(known, int) else _limits(old), _limits(new)
        return None if low <= least and most <= high else f"its cast of {old} to {new} wraps what does not fit"
    if (old.is_float() or old.is_decimal()) and new.is_integer():
        return f"its cast of {old} to {new} takes what does not fit"
    if new.is_decimal() and new.precision < WIDEST and old.is_numeric() and _digits(old) > new.precision - new.scale:
        return f"its cast of {old} to {new} wraps what has more digits"
    return None


def _whatever_it_holds(node: Any) -> str | None:
    """What no look at the values makes good of a cast to dates or decimals."""
    import polars as pl

    inner, new = node.children[0], node.dtype.polars_type
    old = inner.dtype.polars_type
    if old.is_integer() and new == pl.Date:
        return f"its cast of {old} to a date takes every number for two"
    if not new.is_decimal():
        return None
    if old.is_float() and new.precision - new.scale > WIDEST - BEHIND:
        return f"its cast of {old} to {new} goes through {BEHIND} digits behind the point, which leave {WIDEST - BEHIND} before it"
    if not old.is_decimal() or new.scale >= old.scale:
        return None
    cut = inner.children[1] if type(inner).__name__ == "Ternary" else inner
    return None if _is_round(cut) and cut.options[0] <= new.scale else f"its cast of {old} to {new} cuts digits that Polars rounds"


def _limits(dtype: Any) -> tuple[int, int]:
    bits = int(str(dtype).lstrip("UInt"))
    return (0, 2**bits - 1) if dtype.is_unsigned_integer() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _digits(dtype: Any) -> int:
    """The most digits before the point that numbers of a type have."""
    if dtype.is_decimal():
        return int(dtype.precision - dtype.scale)
    return len(str(_limits(dtype)[1])) if dtype.is_integer() else 39


def _operator(node: Any) -> str | None:
    if node.op.name != "PYMOD":
        return None
    by = getattr(node.children[1], "value", None)
    near = node.dtype.polars_type.is_integer() and isinstance(by, int) and abs(by) <= _NEAR
    return None if near else "its `%` adds the divisor to what is left, which loses digits of a float and may wrap an integer"


def _condition(node: Any) -> str | None:
    return "its `is_in` knows no nulls_equal" if node.name.name == "IsIn" and node.options and node.options[0] else None


def _unary(node: Any) -> str | None:
    if node.name == "hash":
        return "its hashes are others"
    if node.name == "round" and node.options[0] > 0 and node.dtype.polars_type.is_float():
        return "it rounds 2.675 to two places otherwise"
    return None


def _temporal(node: Any) -> str | None:
    zone = getattr(node.children[0].dtype.polars_type, "time_zone", None)
    return None if zone in {None, "UTC"} or node.name.name in _ZONED else f"it takes the clock of UTC where Polars takes that of {zone}"


def _text(node: Any) -> str | None:
    if node.name.name == "Strptime":
        return None if _all_looked_at(node) else f"of a text it looks at no more than {node.options[0]!r} says, and takes any that goes on"
    patterned = {"Contains": 0, "Find": 0, "CountMatches": 0, "Extract": None, "ExtractGroups": None}
    if node.name.name not in patterned or (patterned[node.name.name] == 0 and node.options[0]):
        return None
    pattern = node.options[1] if node.name.name == "ExtractGroups" else node.children[1].value
    return None if _ALIKE.fullmatch(pattern or "") else f"it reads the regular expression {pattern!r} otherwise"


def _all_looked_at(node: Any) -> bool:
    """Whether a date is read only of texts that match a regular expression from their start to their end (sql/alike)."""
    from cudf_polars.dsl.traversal import traversal

    guard = node.children[0]
    if type(guard).__name__ != "Ternary" or not _looked_at(*guard.children):
        return False
    texts = [
        test for test in traversal([guard.children[0]]) if type(test).__name__ == "StringFunction" and test.children[0] == guard.children[1]
    ]
    patterns = [test.children[1].value for test in texts if test.name.name == "Contains" and not test.options[0]]
    return any(re.fullmatch(r"\^.*\$", pattern, re.DOTALL) for pattern in patterns)


RULES: dict[str, Callable[[Any], str | None]] = {
    "Cast": _cast,
    "BinOp": _operator,
    "BooleanFunction": _condition,
    "UnaryFunction": _unary,
    "TemporalFunction": _temporal,
    "StringFunction": _text,
}
"""By the kind of an expression's node: what is said of it, None where both engines agree."""
