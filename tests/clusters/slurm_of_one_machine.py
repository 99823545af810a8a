"""Slurm's commands for a machine that has none: sbatch starts the script that it is given, at once and here; scancel ends it."""

from __future__ import annotations

from pathlib import Path

SBATCH = """\
#!/bin/sh
number=$$
cp "$1" {folder}/jobs/$number
setsid sh "$1" > {folder}/said.$number 2>&1 &
echo $! > {folder}/pids/$number
sleep 0.1
echo "Submitted batch job $number"
"""
SCANCEL = """\
#!/bin/sh
for number in "$@"; do
    kill -- -"$(cat {folder}/pids/$number)"
    rm {folder}/pids/$number
done
"""
REFUSES = """\
#!/bin/sh
echo "sbatch: error: invalid partition specified: nowhere" >&2
exit 1
"""


def slurm_commands(folder: Path, sbatch: str = SBATCH) -> Path:
    """The folder of the commands; beside it jobs/ has the scripts that were submitted, pids/ those that run."""
    for name in ("bin", "jobs", "pids"):
        (folder / name).mkdir(parents=True)
    for name, text in (("sbatch", sbatch), ("scancel", SCANCEL)):
        command = folder / "bin" / name
        command.write_text(text.replace("{folder}", str(folder)))
        command.chmod(0o755)
    return folder / "bin"
