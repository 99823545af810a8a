"""Which table each stage and output of a job reads: roles, unknown names and cycles, before any stage is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pipeline.errors import near
from pipeline.job.wording import check_table_name
from pipeline.job.yaml_tree import Node, Place, Problems, found_text
from pipeline.stage import Stage


@dataclass(frozen=True)
class Reading:
    """One mention of a table: the key and place that name it, and the stage that reads it ('' for an output)."""

    key: str
    table: str
    place: Place
    stage: str = ""


def read_roles(node: Node, key: str, kind: type[Stage], problems: Problems) -> dict[str, tuple[str, Place]]:
    """Table and place by role, from a stage's `from`; what does not fit the stage's roles goes to `problems`."""
    source, roles = node.child("from"), kind.roles
    if source is None or source.value is None:
        if roles:
            problems.add((source or node).place, f"{key}.from", f"missing: from. {_wanted(kind)}")
        return {}
    if roles == ("*",):
        listed = source.value if isinstance(source.value, list) else [source]
        given = _by_name(listed)
    elif roles == ("**",) and not isinstance(source.value, dict):
        listed = source.value if isinstance(source.value, list) else [source]
        given = {str(child.value): child for child in listed}
    elif isinstance(source.value, dict):
        given = dict(source.children())
        if roles != ("**",):
            _check_roles(given, source, f"{key}.from", (kind, problems))
    elif len(roles) == 1:
        given = {roles[0]: source}
    else:
        given = {}
        problems.add(source.place, f"{key}.from", f"{_wanted(kind)} Found {found_text(source.value)}.")
    return {role: (child.value, child.place) for role, child in given.items() if _is_table(child, f"{key}.from", kind, problems)}


def _by_name(listed: list[Node]) -> dict[str, Node]:
    """Tables by their names, those that come again with a number behind."""
    given: dict[str, Node] = {}
    for child in listed:
        name, times = str(child.value), 1 + sum(other.value == child.value for other in given.values())
        given[name if times == 1 else f"{name} ({times})"] = child
    return given


def _check_roles(given: dict[str, Node], source: Node, key: str, about: tuple[type[Stage], Problems]) -> None:
    kind, problems = about
    for role in [role for role in given if role not in kind.roles]:
        problems.add(source.keys[role], key, f"{kind.name} has no role {role!r}.{near(role, kind.roles)} {_wanted(kind)}")
        del given[role]
    for role in kind.roles:
        if role not in given and role not in kind.optional:
            problems.add(source.place, key, f"missing: {role}. {_wanted(kind)}")


def _wanted(kind: type[Stage]) -> str:
    """What `from` looks like for a stage."""
    if kind.roles == ("*",):
        return f"{kind.name} reads a list of tables: from: [A, B]."
    if kind.roles == ("**",):
        return f"{kind.name} reads tables by names of its own: from: {{a: NAME, b: NAME}}, or from: [A, B] by theirs."
    if len(kind.roles) == 1:
        return f"{kind.name} reads one table: from: NAME."
    roles = ", ".join(f"{role}: NAME" for role in kind.roles)
    spare = f" {' and '.join(sorted(kind.optional))} may be left out." if kind.optional else ""
    return (
        f"{kind.name} reads {len(kind.roles)} tables: from: {{{roles}}}.{spare}"
        if kind.roles
        else f"{kind.name} reads no table: leave `from` out."
    )


def _is_table(node: Node, key: str, kind: type[Stage], problems: Problems) -> bool:
    if not isinstance(node.value, str):
        problems.add(node.place, key, f"expected the name of a table, found {found_text(node.value)}. {_wanted(kind)}")
        return False
    return check_table_name(node.value, node.place, key, problems)


def check_tables(readings: Iterable[Reading], names: Collection[str], problems: Problems) -> None:
    """Refuse tables that no input or stage gives. `NAME.part` passes where NAME is there: the plan knows the parts."""
    for reading in readings:
        if reading.table.split(".")[0] not in names:
            where = "no input or stage gives the table"
            problems.add(reading.place, reading.key, f"{where} {reading.table!r}.{near(reading.table, names)}")


def check_cycles(readings: Iterable[Reading], problems: Problems) -> None:
    """Refuse stages that wait for one another, each cycle once, with its chain."""
    reads: dict[str, list[Reading]] = {}
    for reading in readings:
        if reading.stage:
            reads.setdefault(reading.stage, []).append(reading)
    done: set[str] = set()
    for start in reads:
        _walk(start, reads, done, problems)


def _walk(start: str, reads: dict[str, list[Reading]], done: set[str], problems: Problems) -> None:
    """Depth first from one stage, with a stack of its own: a long job is no reason for a deep recursion."""
    chain: list[Reading] = []
    waiting: list[tuple[int, Reading]] = [(0, Reading("", start, Place(0, 0)))]
    while waiting:
        depth, reading = waiting.pop()
        done.update(step.table.split(".")[0] for step in chain[depth:])
        del chain[depth:]
        name = reading.table.split(".")[0]
        names = [step.table.split(".")[0] for step in chain]
        if name in names:
            cycle = [*names[names.index(name) :], name]
            problems.add(reading.place, reading.key, f"the stages read one another in a circle: {' -> '.join(reversed(cycle))}")
        elif name not in done:
            chain.append(reading)
            waiting += [(depth + 1, below) for below in reversed(reads.get(name, []))]
    done.update(step.table.split(".")[0] for step in chain)
