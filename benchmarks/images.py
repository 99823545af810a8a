"""jobs/images.yaml beside the same nets by hand in Flax: python benchmarks/images.py [--digits N] [--shapes N] [--rounds N] [--runs N].

Both decode the same files, change every training image in each round, train the same layers for the same rounds in the same batches, and
write what they predict; the job writes models, mistakes, influence of pixels and its page besides.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, beside, python, write_result


def settings(folder: Path, rounds: int) -> list[str]:
    """These files and so many rounds, as `--set` wants them."""
    paths = {"digits": "digits", "shapes": "shapes", "answers": "shapes.csv"}
    told = [f"inputs.{name}.path={folder / place}" for name, place in paths.items()]
    return [*told, *(f"stages.{stage}.rounds={rounds}" for stage in ("read", "seen")), f"results={folder / 'ours'}"]


def main() -> None:
    """Make the images, time both and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--digits", type=int, default=1_797)
    parser.add_argument("--shapes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = ("--digits", str(given.digits), "--shapes", str(given.shapes), "--out", str(folder), "--seed", "9")
        subprocess.run(python("data/make_images.py", *made), cwd=ROOT, check=True)
        peer = python("benchmarks/peers/images_flax.py", str(folder), str(folder / "theirs"), str(given.rounds))
        work = f"{given.digits:,} digits and {given.shapes:,} shapes, {given.rounds} rounds"
        sets, by = settings(folder, given.rounds), ("Pillow, SciPy and Flax by hand", peer)
        rows = beside(work, ROOT / "jobs" / "images.yaml", sets, by, given.runs)
    write_result("images", rows)


if __name__ == "__main__":
    main()
