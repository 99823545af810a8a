"""The genomics chain as a good NumPy programmer writes it by hand: no cluster, no record, float64, all calls unpacked in memory.

python benchmarks/peers/genomics_numpy.py --vcf COHORT.vcf.gz --samples SAMPLES.csv --out DIR

Reads the VCF, drops people with a call rate below 0.95 and variants that fail call rate 0.98, MAF 0.01 or Hardy-Weinberg 1e-6, takes ten
principal components of the relationship matrix, and tests every variant for `ldl` on age, sex and them, complete case per variant.
"""

from __future__ import annotations

import argparse
import gzip
import math
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special, stats

Floats = npt.NDArray[np.float64]
Dosages = npt.NDArray[np.int8]
"""ALT alleles of variants x people, -1 for a missing call."""

MIN_SAMPLE_CALL_RATE, MIN_CALL_RATE, MIN_MAF, MIN_HWE_P, COMPONENTS, TRAIT = 0.95, 0.98, 0.01, 1e-6, 10, "ldl"
BLOCK = 2_000
"""Variants that are turned into float64 at a time."""


def read_vcf(path: Path) -> tuple[pl.DataFrame, list[str], Dosages]:
    """Variants, sample ids and dosages of a VCF whose FORMAT is GT alone and whose alleles are single digits."""
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(b"#CHROM"))
    names = lines[first].decode().split("\t")[9:]
    rows = [line for line in lines[first + 1 :] if line]
    dosages = np.empty((len(rows), len(names)), dtype=np.int8)
    fields = []
    for i, line in enumerate(rows):
        *head, genotypes = line.split(b"\t", 9)
        fields.append((head[0].decode(), int(head[1]), head[2].decode(), head[3].decode(), head[4].decode()))
        text = np.frombuffer(genotypes + b"\t", dtype=np.uint8).reshape(len(names), 4)
        called = (text[:, 0] != ord(".")) & (text[:, 2] != ord("."))
        dosages[i] = np.where(called, text[:, 0] + text[:, 2] - 2 * ord("0"), -1)
    schema = ["chromosome", "base_pair_location", "variant_id", "ref", "alt"]
    return pl.DataFrame(fields, schema=schema, orient="row"), names, dosages


def hardy_weinberg(hets: int, rare: int, called: int, log_factorial: Floats) -> float:
    """Exact two-sided p-value (Wigginton, Cutler & Abecasis 2005) of `hets` heterozygotes, given `rare` alleles in `called` people."""
    possible = np.arange(rare % 2, rare + 1, 2)
    homs = (rare - possible) // 2
    log_p = possible * math.log(2) - log_factorial[possible] - log_factorial[homs] - log_factorial[called - possible - homs]
    p = np.exp(log_p - log_p.max())
    return float(min(1.0, p[p <= p[hets // 2] * (1 + 1e-8)].sum() / p.sum()))


def variant_quality(dosages: Dosages) -> pl.DataFrame:
    """Call rate, ALT frequency, MAF and Hardy-Weinberg p of every variant."""
    counts = np.stack([(dosages == code).sum(axis=1) for code in (0, 1, 2)])
    called = counts.sum(axis=0)
    alt = counts[1] + 2 * counts[2]
    rare = np.minimum(alt, 2 * called - alt)
    log_factorial = special.gammaln(np.arange(dosages.shape[1] + 2) + 1.0)
    p = [hardy_weinberg(int(h), int(r), int(n), log_factorial) for h, r, n in zip(counts[1], rare, called)]
    frequency = alt / (2.0 * called)
    return pl.DataFrame(
        {
            "call_rate": called / dosages.shape[1],
            "alt_frequency": frequency,
            "minor_allele_frequency": np.minimum(frequency, 1 - frequency),
            "hwe_p_value": p,
        }
    )


def principal_components(dosages: Dosages) -> Floats:
    """The leading eigenvectors of the relationship matrix, each pair's sum divided by the variants that both have (PLINK, GCTA)."""
    people = dosages.shape[1]
    products, pairs = np.zeros((people, people)), np.zeros((people, people))
    for start in range(0, len(dosages), BLOCK):
        block = dosages[start : start + BLOCK].astype(np.float64)
        called = (block >= 0).astype(np.float64)
        frequency = ((block * called).sum(axis=1) / (2 * called.sum(axis=1)))[:, None]
        z = (block - 2 * frequency) / np.sqrt(2 * frequency * (1 - frequency)) * called
        products += z.T @ z
        pairs += called.T @ called
    return np.asarray(np.linalg.eigh(products / pairs)[1][:, ::-1][:, :COMPONENTS])


def linear_gwas(dosages: Dosages, y: Floats, covariates: Floats) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Beta, standard error and n of every variant, complete case: one small batched system per variant on orthonormal covariates."""
    x = np.column_stack([np.ones(len(y)), (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)])
    q = np.linalg.qr(x)[0]
    r = y - q @ (q.T @ y)
    k = q.shape[1]
    outer = (q[:, :, None] * q[:, None, :]).reshape(len(y), k * k)
    beta, error, counts = [], [], []
    for start in range(0, len(dosages), BLOCK):
        block = dosages[start : start + BLOCK].astype(np.float64)
        called = (block >= 0).astype(np.float64)
        n = called.sum(axis=1)
        g = (block - ((block * called).sum(axis=1) / n)[:, None]) * called
        gram = (called @ outer).reshape(-1, k, k)
        sides = np.stack([g @ q, called @ (q * r[:, None])], axis=2)
        solved = np.linalg.solve(gram, sides)
        gg = (g * g).sum(axis=1) - (sides[:, :, 0] * solved[:, :, 0]).sum(axis=1)
        gy = g @ r - (sides[:, :, 1] * solved[:, :, 0]).sum(axis=1)
        yy = called @ (r * r) - (sides[:, :, 1] * solved[:, :, 1]).sum(axis=1)
        b = gy / gg
        beta.append(b)
        error.append(np.sqrt((yy - b * gy) / (n - k - 1) / gg))
        counts.append(n)
    return np.concatenate(beta), np.concatenate(error), np.concatenate(counts).astype(np.int64)


def associations(variants: pl.DataFrame, dosages: Dosages, people: pl.DataFrame) -> pl.DataFrame:
    """The rows of the GWAS catalogue's standard columns, smallest p-value first."""
    names = ["age", "sex", *[f"pc{i + 1}" for i in range(COMPONENTS)]]
    complete = people.with_row_index("column").drop_nulls([TRAIT, *names])
    kept = dosages[:, complete["column"].to_numpy()]
    beta, error, n = linear_gwas(kept, complete[TRAIT].to_numpy().astype(np.float64), complete.select(names).to_numpy().astype(np.float64))
    statistic = beta / error
    log_p = stats.t.logsf(np.abs(statistic), n - len(names) - 2) + math.log(2)
    table = variants.select(
        "chromosome",
        "base_pair_location",
        effect_allele="alt",
        other_allele="ref",
        beta=pl.Series(beta),
        standard_error=pl.Series(error),
        effect_allele_frequency=pl.Series(np.where(kept < 0, 0, kept).sum(axis=1) / (2.0 * n)),
        p_value=pl.Series(np.exp(log_p)),
        neg_log_10_p_value=pl.Series(-log_p / math.log(10)),
        variant_id="variant_id",
        n=pl.Series(n),
        trait=pl.lit(TRAIT),
        statistic=pl.Series(statistic),
        test=pl.lit("linear"),
    )
    return table.sort("p_value")


def run(vcf: Path, sheet: Path, out: Path) -> None:
    """The whole chain; prints the seconds of every step."""
    began = time.perf_counter()

    def passed(step: str) -> None:
        print(f"{time.perf_counter() - began:7.2f} s  {step}", flush=True)

    out.mkdir(parents=True, exist_ok=True)
    variants, names, dosages = read_vcf(vcf)
    passed(f"read {dosages.shape[0]} variants of {dosages.shape[1]} people")
    rate = (dosages >= 0).mean(axis=0)
    samples = pl.DataFrame({"sample_id": names, "call_rate": rate})
    dosages = dosages[:, rate >= MIN_SAMPLE_CALL_RATE]
    samples = samples.filter(pl.col("call_rate") >= MIN_SAMPLE_CALL_RATE)
    variants = variants.hstack(variant_quality(dosages))
    good = (pl.col("call_rate") >= MIN_CALL_RATE) & (pl.col("minor_allele_frequency") >= MIN_MAF) & (pl.col("hwe_p_value") >= MIN_HWE_P)
    keep = variants.select(good).to_series().to_numpy()
    variants, dosages = variants.filter(pl.Series(keep)), dosages[keep]
    passed(f"quality: {dosages.shape[0]} variants, {dosages.shape[1]} people")
    axes = principal_components(dosages)
    ancestry = samples.select("sample_id").with_columns(pl.Series(f"pc{i + 1}", axes[:, i]) for i in range(COMPONENTS))
    passed("principal components")
    people = ancestry.join(pl.read_csv(sheet), on="sample_id", how="left", maintain_order="left")
    found = associations(variants, dosages, people)
    passed(f"linear GWAS: {found.filter(pl.col('p_value') < 5e-8).height} variants below 5e-8")
    for name, frame in {"variants": variants, "samples": samples, "ancestry": ancestry, "associations": found}.items():
        frame.write_parquet(out / f"{name}.parquet")
    passed("written")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("--vcf", "--samples", "--out"):
        parser.add_argument(name, type=Path, required=True)
    given = parser.parse_args()
    run(given.vcf, given.samples, given.out)


if __name__ == "__main__":
    main()
