"""jobs/align.yaml beside minimap2, samtools and bcftools in a shell: python benchmarks/align.py [--bases N] [--runs N] [--minimap2 PATH].

Both go from the same FASTQ files to a sorted and indexed BAM, the depth of the reference and called genotypes, with all cores where a tool
has them. The programs must be on the path; give the minimap2 of mappy's version, or what is timed is another one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.harness import ROOT, beside, python, write_result

SAMPLES = ("mother", "child")


def theirs(folder: Path, minimap2: str) -> str:
    """The shell commands of a user without us."""
    reference, out, cores = folder / "reference.fa", folder / "theirs", "$(nproc)"
    lines = ["set -euo pipefail", f"rm -rf {out}; mkdir {out}"]
    for sample in SAMPLES:
        reads = " ".join(str(folder / f"{sample}_{at}.fastq.gz") for at in (1, 2))
        group = rf"@RG\tID:{sample}\tSM:{sample}"
        aligned = f"{minimap2} -t {cores} -ax sr --secondary=no -R '{group}' {reference} {reads}"
        lines.append(f"{aligned} | samtools sort -@ {cores} -o {out}/{sample}.bam -")
    bams = " ".join(f"{out}/{sample}.bam" for sample in SAMPLES)
    lines += [
        f"samtools merge -@ {cores} -o {out}/reads.bam {bams}",
        f"samtools index {out}/reads.bam",
        f"samtools depth -aa {out}/reads.bam > {out}/depth.tsv",
        f"bcftools mpileup -f {reference} -a AD,DP -Ou {out}/reads.bam | bcftools call -mv -Oz -o {out}/genotypes.vcf.gz",
    ]
    return "\n".join(lines)


def settings(folder: Path) -> list[str]:
    """These files, as `--set` wants them."""
    paths = [f"inputs.{sample}.path=[{folder}/{sample}_1.fastq.gz, {folder}/{sample}_2.fastq.gz]" for sample in SAMPLES]
    paths += [f"{place}.reference={folder}/reference.fa" for place in ("stages.aligned", "stages.depths", "stages.calls", "outputs.reads")]
    return [*paths, f"results={folder / 'ours'}"]


def main() -> None:
    """Make the reads, time both and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bases", type=int, default=1_000_000)
    parser.add_argument("--depth", type=float, default=25)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--minimap2", default="minimap2")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = ("--bases", str(given.bases), "--depth", str(given.depth), "--out", str(folder), "--seed", "5")
        subprocess.run(python("data/make_align.py", *made), cwd=ROOT, check=True)
        with (folder / "reference.fa").open("wb") as reference:
            subprocess.run(["gzip", "-dc", str(folder / "reference.fa.gz")], stdout=reference, check=True)
        subprocess.run(["samtools", "faidx", str(folder / "reference.fa")], check=True)
        shell = ["bash", "-c", theirs(folder, given.minimap2)]
        work = f"{given.bases:,} bases, two samples at {given.depth:g}x"
        rows = beside(work, ROOT / "jobs" / "align.yaml", settings(folder), ("minimap2, samtools, bcftools", shell), given.runs)
    write_result("align", rows)


if __name__ == "__main__":
    main()
