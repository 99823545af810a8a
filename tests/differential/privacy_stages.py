"""k_anonymity as SQL."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline.stages.privacy.k_anonymity import KAnonymity
from tests.differential.cases import Case
from tests.differential.keyed_stages import KEYS
from tests.differential.oracle import quoted
from tests.differential.tables import some, tables


@st.composite
def k_anonymity(draw: st.DrawFn) -> Case:
    """One or two columns by which rows are alike, and one, sometimes, whose values should differ."""
    names, k = draw(some(KEYS, most=2)), draw(st.integers(2, 4))
    sensitive = draw(st.sampled_from(["", *(name for name in KEYS if name not in names)]))
    stage = {"quasi_identifiers": names, "k": k, "action": draw(st.sampled_from(["fail", "warn", "warn"]))}
    by = ", ".join(map(quoted, names))
    distinct = f", count(distinct {quoted(sensitive)}) as {quoted(f'distinct_{sensitive}')}" if sensitive else ""
    alike = f"or count(distinct {quoted(sensitive)}) < 2" if sensitive else ""
    below = f"select {by}, count(*) as rows{distinct} from rows group by {by} having count(*) < {k} {alike}"
    fails = f"select count(*) > 0 from ({below})" if stage["action"] == "fail" else ""
    rows = draw(tables()).rename({"row": "place"})
    work = KAnonymity.model_validate({**stage, **({"sensitive": sensitive} if sensitive else {})})
    return Case(work, {"rows": rows}, "select * from rows", also={"below": below}, fails=fails)
