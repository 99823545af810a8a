"""The text of an SQL expression: the functions it may call, and what is refused before Polars reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from itertools import pairwise
from typing import NamedTuple

from pipeline.errors import ExpressionError, near
from pipeline.sql.spelling import respelled
from pipeline.sql.windows import ALONE, NAMED, OF_OTHER_ROWS, ORDERED, check_windows, example_of

MAX_CHARACTERS = 2_000


@dataclass(frozen=True)
class Function:
    """What a function gives, in one line, and whether cuDF runs it (`gpu`).

    Polars' parser knows neither what is our `own` nor what is the `same` as a function that it knows.
    """

    meaning: str
    gpu: bool = True
    own: bool = False
    same: str = ""


FUNCTIONS = {
    "abs": Function("the number without its sign"),
    "sign": Function("-1, 0 or 1, as the number is negative, zero or positive"),
    "ceil": Function("the least whole number that is not below it"),
    "floor": Function("the greatest whole number that is not above it"),
    "round": Function("rounded to so many decimals (0 unless given); a half goes to the even digit"),
    "trunc": Function("cut after so many decimals (0 unless given)"),
    "exp": Function("e to that power"),
    "ln": Function("natural logarithm; null unless above 0"),
    "log": Function("logarithm of the first number to the base of the second"),
    "log2": Function("logarithm to the base 2"),
    "log10": Function("logarithm to the base 10"),
    "log1p": Function("natural logarithm of 1 + the number, exact for small ones"),
    "sqrt": Function("square root; null below 0"),
    "cbrt": Function("cube root"),
    "power": Function("the first number to the power of the second, always a float"),
    "pow": Function("the same as power"),
    "div": Function("floor division, the same as //"),
    "mod": Function("remainder with the sign of the divisor, the same as %"),
    "pi": Function("3.14159..."),
    "degrees": Function("radians to degrees"),
    "radians": Function("degrees to radians"),
    "sin": Function("sine of radians"),
    "cos": Function("cosine of radians"),
    "tan": Function("tangent of radians"),
    "cot": Function("cotangent of radians"),
    "asin": Function("angle in radians with that sine; null outside -1 to 1"),
    "acos": Function("angle in radians with that cosine; null outside -1 to 1"),
    "atan": Function("angle in radians with that tangent"),
    "atan2": Function("angle in radians of the point (second, first)", gpu=False),
    "greatest": Function("the greatest value that is not null (of texts on a CPU only)"),
    "least": Function("the least value that is not null (of texts on a CPU only)"),
    "coalesce": Function("the first value that is not null"),
    "ifnull": Function("the first value, or the second where it is null"),
    "nullif": Function("null where both are equal, else the first"),
    "if": Function("the second value where the condition is true, else the third"),
    "lower": Function("in small letters"),
    "upper": Function("in capital letters"),
    "initcap": Function("every word with a capital first letter"),
    "trim": Function("without white space at both ends; trim(both 'x' from t) takes other characters away"),
    "ltrim": Function("without white space, or the given characters, at its start"),
    "rtrim": Function("without white space, or the given characters, at its end"),
    "length": Function("number of characters; of a list (CPU only) of its values"),
    "len": Function("the same as length", same="length"),
    "array_length": Function("the same as length", same="length"),
    "octet_length": Function("number of bytes in UTF-8"),
    "left": Function("the first n characters; all but the last -n below 0 (n from a column: CPU only)", own=True),
    "right": Function("the last n characters; all but the first -n below 0 (n from a column: CPU only)", own=True),
    "substr": Function("from character n on, counted from 1 (before it there is nothing), at most so many (from columns: CPU only)"),
    "substring": Function("the same as substr"),
    "replace": Function("every occurrence of one text replaced by another"),
    "reverse": Function("its characters backwards"),
    "concat": Function("texts one after another; nulls are left out"),
    "concat_ws": Function("texts with the first one between them; nulls are left out"),
    "lpad": Function("filled from the left to so many characters, or cut to them"),
    "rpad": Function("filled from the right to so many characters, or cut to them"),
    "starts_with": Function("whether it starts with the other text"),
    "ends_with": Function("whether it ends with the other text"),
    "strpos": Function("where the other text starts, counted from 1; 0 where it does not occur and for null"),
    "position": Function("the same as strpos, written position('b' in t)"),
    "regexp_like": Function("whether the regular expression matches somewhere in it, the same as ~ (with flags such as 'i': CPU only)"),
    "regexp_matches": Function("the same as regexp_like", same="regexp_like"),
    "regexp_extract": Function("what the regular expression, or its n-th group, matches first; empty where it does not match", own=True),
    "regexp_replace": Function("the first match of a regular expression replaced; every match with a fourth 'g'", gpu=False, own=True),
    "split_part": Function("the n-th piece between separators, counted from 1; empty where there is none", gpu=False, own=True),
    "string_split": Function("the pieces between separators, a list; its characters where the separator is empty", gpu=False, own=True),
    "list_extract": Function("the n-th value of a list, counted from 1, from its end below 0, the same as l[n]", gpu=False, own=True),
    "list_contains": Function("whether a list holds a value", gpu=False, own=True),
    "hash": Function("64 bits of a hash of the values, UInt64: the same on any machine and in any version", gpu=False, own=True),
    "date": Function("text to date, as 2020-06-01 or in the given format; text that does not fit fails the run"),
    "timestamp": Function("text to timestamp, as 2020-06-01 10:20:30 or in the given format; text that does not fit fails the run"),
    "strptime": Function("text to timestamp in the given format; text that does not fit fails the run"),
    "strftime": Function("date or timestamp to text in the given format"),
    "extract": Function("a part of a date or timestamp, written extract(year from d)"),
    "date_part": Function("a part of a date or timestamp, as a whole number (epoch: seconds since 1970, a float)"),
    "date_trunc": Function("the start of the hour, day, week (Monday), month, quarter or year that it lies in", own=True),
    "cast": Function("another type; a value that does not fit fails the run"),
    "try_cast": Function("another type; a value that does not fit becomes null"),
}

SPELLED = {name: function.same for name, function in FUNCTIONS.items() if function.own or function.same}
ACROSS_ROWS = re.compile(
    "any_value|approx_count_distinct|array_agg|avg|bit_(and|or|xor)_agg|bool_(and|or)|count|cum[a-z_]*|every|group_concat|listagg|"
    "(first|last|nth)(_value)?|lag|lead|max|mean|median|min|mode|ntile|(dense_|percent_)?rank|row_number|string_agg|sum|unnest|"
    "corr|covar(_pop|_samp)?|(percentile|quantile)_?(cont|disc)?|skewness|(std|stdev|stddev|var|variance)(_pop|_samp)?"
)
HINTS = (
    dict.fromkeys(("year", "month", "day", "hour", "minute", "second", "quarter", "week"), "write date_part('year', d)")
    | dict.fromkeys(("now", "random", "rand", "uuid", "today", "getdate"), "an answer that changes from run to run has no place in a table")
    | dict.fromkeys(("isnan", "is_nan", "isnull"), "null is the only missing value, NaN is none: write `x is null`")
    | dict.fromkeys(("contains", "instr", "charindex"), "write t ~ 'b', or strpos(t, 'b') > 0")
    | dict.fromkeys(("any", "all", "some"), "write `in (...)`")
    | {"datediff": "write cast(d as int) - cast(e as int)", "datetime": "write timestamp(t)"}
)
KEYWORDS = re.compile("and|or|not|is not|xor|in|i?like|rlike|regexp|between|is|when|then|else|case|end|from|for|distinct|interval")
REFUSED_SIGNS = {
    ";": "an expression is one value, not statements: take ';' away",
    "'": "a text that begins with ' has no end: close it, and write '' for a quote within it",
    '"': "a name that begins with a double quote has no end: close it",
    "`": "a name that begins with ` has no end: close it",
    "&": "bits are not supported; for conditions write `and`",
    "|": "bits are not supported; for conditions write `or`, for texts `||`",
    "^": "bits are not supported; for a power write power(x, 2)",
} | dict.fromkeys("$?:@", "there are no placeholders: write the value itself (${NAME} in a job file takes one from the environment)")
TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\r\n]*|/\*.*?\*/) | (?P<text>'(?:[^']|'')*') | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) | (?P<word>[^\W\d]\w*)
    | (?P<sign>::|\|\||<=>|//|\^@|[-+*/%=<>!~(),.\[\]]) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A piece of the text: its kind (a group of TOKEN), its value (words in small letters), and what stands before and after it."""

    kind: str
    value: str
    before: str
    after: str


def checked_text(text: str) -> str:
    """The text as Polars reads it (5e-8 as decimals, which it does not know otherwise), once nothing in it is refused.

    Raises ExpressionError for what is too long or empty, for statements, queries, placeholders, `*`, and for functions that are unknown
    or look at other rows.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(
            f"the expression has {len(text):,} characters, at most {MAX_CHARACTERS:,} are allowed: derive a part of it in a stage before"
        )
    if not text.isprintable() and any(not c.isspace() and not c.isprintable() for c in text):
        raise ExpressionError("the expression holds a control character or half a character: type it anew")
    matches = [match for match in TOKEN.finditer(text) if match.lastgroup != "space"]
    if not matches:
        raise ExpressionError("the expression is empty")
    for here, after in pairwise(matches):
        if here.lastgroup == "number" and here.end() == after.start() and after.lastgroup in {"number", "word"}:
            raise ExpressionError(f"{here.group() + after.group()!r} is not a number, and a name starts with a letter")
    check_windows(" ".join("''" if match.lastgroup == "text" else match.group() for match in matches))
    values = ["", *(match.group().lower() if match.lastgroup == "word" else match.group() for match in matches), ""]
    values = ["is not" if pair == ("is", "not") else pair[1] for pair in pairwise(["", *values])]
    for i, match in enumerate(matches, start=1):
        _check_token(Token(match.lastgroup or "", values[i], values[i - 1], values[i + 1]))
    pieces = [(match.lastgroup or "", match.group()) for match in TOKEN.finditer(text)]
    return respelled([(kind, _number(piece) if kind == "number" else piece) for kind, piece in pieces], SPELLED)


def _check_token(token: Token) -> None:
    """Refuse what one token shows."""
    kind, value, before, after = token
    if kind == "other":
        raise ExpressionError(REFUSED_SIGNS.get(value, f"{value!r} has no meaning in an expression"))
    if value == "*" and before in {"", "(", ","}:
        raise ExpressionError(
            "'*' stands for many columns, and an expression is one value" + (f": {OF_OTHER_ROWS}" if before == "(" else "")
        )
    if kind == "word" and (value == "select" or (value == "exists" and after == "(")):
        raise ExpressionError("queries and subqueries are not allowed in an expression: use the stages join and filter")
    if kind == "word" and value in {"filter", "within"} and before == ")":
        raise ExpressionError(f"{value!r} makes a window over rows: {OF_OTHER_ROWS}")
    if value in {"true", "false", "unknown"} and before in {"is", "is not"}:
        raise ExpressionError(
            f"'{before} {value}' is not supported: write `= true` or `= false`, and coalesce(x, false) where null counts as false"
        )
    if after == "(" and kind in {"word", "quoted"} and before not in {"as", "::"} and not KEYWORDS.fullmatch(value):
        _check_function(value.strip('"`').lower())


def _check_function(name: str) -> None:
    """Refuse a function that is not in FUNCTIONS, those that look at other rows with their own reason."""
    if name in FUNCTIONS:
        return
    if NAMED.get(name, name) in ORDERED:
        raise ExpressionError(f"{name}() looks at other rows, and {ALONE}: use the stage window, as in {example_of(name)}")
    if ACROSS_ROWS.fullmatch(name):
        raise ExpressionError(f"{name}() looks at other rows: {OF_OTHER_ROWS}")
    close = near(name, FUNCTIONS) if get_close_matches(name, FUNCTIONS, n=1) else " docs/expressions.md lists all there are."
    raise ExpressionError(f"unknown function {name!r}" + (f": {HINTS[name]}" if name in HINTS else f".{close}"))


def _number(number: str) -> str:
    """5e-8 as 0.00000005 and what is beyond Int64 as a cast of its digits: Polars' parser takes neither."""
    if number.isdigit() and int(number) > 2**63 - 1:
        if int(number) > 2**64 - 1:
            raise ExpressionError(f"the number {number} is beyond every integer (UInt64 ends at {2**64 - 1}): write {number}.0, a float")
        return f"cast('{int(number)}' as bigint unsigned)"
    if "e" not in number.lower():
        return number
    value = Decimal(number)
    if value and not -320 < value.adjusted() < 309:
        raise ExpressionError(f"the number {number} is out of the range of a float (1e-320 to 1e308)")
    plain = format(value, "f")
    return plain if "." in plain else plain + ".0"
