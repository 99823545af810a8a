"""jobs/text.yaml beside scikit-learn by hand: python benchmarks/text.py [--messages N] [--words N] [--runs N].

Both go from the same messages to predictions of their groups, measures, and the messages that are alike; by default 18,846 messages of 150
words in the middle, as many and about as long as those of the 20 newsgroups. Whole processes in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, beside, python, write_result


def main() -> None:
    """Make the messages, time both and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=18_846)
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = ("--messages", str(given.messages), "--words", str(given.words), "--out", str(folder))
        subprocess.run(python("data/make_text.py", *made), cwd=ROOT, check=True)
        messages = folder / "messages.parquet"
        theirs = python("benchmarks/peers/text_sklearn.py", "--messages", str(messages), "--out", str(folder / "theirs"))
        work, sets = (
            f"{given.messages:,} messages of some {given.words} words",
            (f"results={folder / 'ours'}", f"inputs.messages.path={messages}"),
        )
        rows = beside(work, ROOT / "jobs" / "text.yaml", sets, ("scikit-learn", theirs), given.runs)
    write_result("text", rows)


if __name__ == "__main__":
    main()
