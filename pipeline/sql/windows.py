"""What is said of functions that look at other rows: the stage that has them, and how the same is written there."""

from __future__ import annotations

import re

from pipeline.errors import ExpressionError

ALONE = "an expression sees one row at a time"
OF_OTHER_ROWS = (
    f"its answer would depend on how the rows are divided, and {ALONE}: use the stage aggregate (a row for each group), "
    "or the stage window (beside each row)"
)
NAMED = {"avg": "mean", "first_value": "first", "last_value": "last", "stddev": "std", "stddev_samp": "std", "variance": "var"}
RANKED = {"row_number", "rank", "dense_rank", "percent_rank"}
ORDERED = {"lag", "lead", "ntile", "first", "last", *RANKED}
RUNNING = {"sum", "mean", "min", "max", "count", "std", "var", "median"}
WINDOW = ORDERED | RUNNING
OVER = re.compile(
    r"""(?P<function>\w+)\s*\((?P<given>[^()]*)\)\s*over\s*\(\s*(partition\s+by\s+(?P<by>[\w",\s]+?))?\s*
    (order\s+by\s+(?P<order>[\w",\s]+?))?\s*(rows\s+(between\s+)?(?P<rows>\d+)\s+preceding(\s+and\s+current\s+row)?)?\s*\)""",
    re.IGNORECASE | re.VERBOSE,
)


def check_windows(text: str) -> None:
    """Raise ExpressionError for a window over rows, with the stage that makes it; `text` is without texts and comments in it."""
    if not re.search(r"\bover\s*(\(|\w)", text, re.IGNORECASE):
        return
    found = OVER.search(text)
    name = NAMED.get(found["function"].lower(), found["function"].lower()) if found else ""
    if found is None or name not in WINDOW:
        raise ExpressionError(
            f"'over' makes a window over rows: {ALONE}. Use the stage window, as in {window_of('lag(x, 2)', 'key', 'day')}"
        )
    given = [piece.strip() for piece in found["given"].split(",") if piece.strip(" *")]
    raise ExpressionError(
        f"{found['function'].lower()}() looks at other rows, and {ALONE}: use the stage window, as in "
        + window_of(_call(name, given, found), _names(found["by"]), _names(found["order"]))
    )


def example_of(name: str) -> str:
    """How the stage window is written for a function whose own columns are not known."""
    known = NAMED.get(name, name)
    return window_of({"ntile": "ntile(4)"}.get(known, f"{known}()" if known in RANKED else f"{known}(x)"), "key", "day")


def window_of(call: str, by: str, order: str) -> str:
    """How the stage window is written."""
    keys = "".join(f"{key}: {names}, " for key, names in (("by", by), ("order", order)) if names)
    quoted = f'"{call}"' if "," in call else call
    return f"{{use: window, {keys}compute: {{NAME: {quoted}}}}}"


def _call(name: str, given: list[str], found: re.Match[str]) -> str:
    if name == "count" and not given:
        name = "size"
    if found["rows"]:
        return f"rolling_{name}({', '.join([*given, str(int(found['rows']) + 1)])})"
    name = f"cum_{name}" if found["order"] and name in RUNNING else name
    return f"{name}({', '.join(given)})"


def _names(listed: str | None) -> str:
    """Columns as a job's list of them: '-' before those that SQL has descending."""
    words = [piece.split() for piece in (listed or "").replace('"', "").split(",") if piece.strip()]
    names = [f"-{word[0]}" if "desc" in (piece.lower() for piece in word[1:]) else word[0] for word in words]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]" if names else ""
