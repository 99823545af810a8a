"""A small imputed cohort, dosages in steps of 1/32, with what PLINK 2.00a3.5 printed for it (`--vcf X dosage=DS`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pipeline.tables.part import Part
from tests.stages.genomics.cohorts import Cohort

SEX = "201022111221211212122221212212211212121212112212221212111202"
CHILDREN = range(40, 46)
STEPS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/="
# Chromosome, dosages; ALT_FREQS, HWE P of everyone; the same without the children; MACH_R2; MISSING_CT, OBS_CT.
VARIANTS: list[Any] = [
    ("1", "Ya=0WZ=WVzVW2W0+==Y.WXTWW=XZ=4===0=Xa=0=W+===0==2YU.=T/W=WW2",
     (0.624731, 0.770503), (0.610877, 1), 1.00743, (5, 60)),
    ("1", "a0=0WT=WSwWW0R3===W=XWWY==XW0====3=WY=4VZT===1==0YW0WU0Y=0W0",
     (0.567708, 0.280207), (0.556424, 0.389268), 1.08697, (5, 60)),
    ("1", "=1=0VWzXVxWb0W0===V=Xa1W==Qy0==0=0+.V00=.S+==0=00W11W3=W.0V0",
     (0.522752, 0.00171823), (0.507512, 0.00775939), 1.32244, (9, 60)),
    ("1", "=0=0VW=TWyUW0V0==0WyYW0W=/W=4==1=010a10=VQ0==0=.0W00Z0z0W0X1",
     (0.463983, 0.00714686), (0.461969, 0.0206033), 1.31477, (6, 60)),
    ("1", "=0y0XU=ZZ=WW.W2W=1S=WW4T==Uy0==64031W00xUb0==0=00W03V0=0b0W0",
     (0.444386, 0.0415919), (0.437205, 0.0719199), 1.24275, (10, 60)),
    ("1", "02UW003W0yW.R0WX00YQ002000001.001000.W.00.2200W0U00000W00000",
     (0.135511, 1), (0.147812, 1), 0.91759, (8, 60)),
    ("1", "00.01Y201000000424W0004202.T0001.10.0X0000.000021008.00000ZU",
     (0.0659722, 1), (0.0727041, 1), 0.793778, (10, 60)),
    ("1", ".00.0U062030100000W00000001c00000.100S0000b00000000000a001VW",
     (0.0764803, 1), (0.0741422, 1), 0.908332, (8, 60)),
    ("1", "000.2V00000000000.WW0005502WyV0000000Q2020W000001000.0X010WW",
     (0.10773, 1), (0.109988, 1), 0.961518, (7, 60)),
    ("1", "010X0a000003100000XU0/==004USZy=00003W2WW3Y0010a0y2003W200SX",
     (0.230208, 0.0450238), (0.235532, 0.0270975), 1.20334, (7, 60)),
    ("1", "111111111111111111111111111111111111111111111111111111111111",
     (0.015625, 1), (0.015625, 1), 0, (0, 60)),
    ("1", "0000.00000000000.0000000000000000000000000000000000000000000",
     (0, 1), (0, 1), None, (2, 60)),
    ("2", "06210.00W.TaPV0S0W=Y00400WUWX5UVWWWW02=WA0X000W0ZZW+0Y=1W.Y0",
     (0.314419, 0.744189), (0.338235, 0.515902), 0.830174, (10, 60)),
    ("2", "0=.00004WWRWWTUW3W=W0W030WVWW.WWWWTa40=100a500W0W.Xx0W=0T0X3",
     (0.336349, 0.524117), (0.363358, 0.338069), 0.838612, (10, 60)),
    ("2", "0Y000060WYaWWX2V0Y.e0Y002WWWWVSWWWVW02=00WRd00Y0ZTW+0W=2X0W1",
     (0.330508, 0.332724), (0.339033, 0.205459), 0.743829, (7, 60)),
    ("2", "0W4.=003ZWVXRW0XUb=20Y030WTVWXWVW.WW00=000UWV1W0ZYXv.Ws1W1W1",
     (0.360197, 0.120067), (0.373775, 0.189589), 0.75238, (8, 60)),
    ("2", "0050.020RX0We.00TU010b0001WZVYWPWWWYX0/000WT0040WX.=1V/1V..1",
     (0.276705, 1), (0.291135, 1), 0.870282, (11, 60)),
    ("2", "W=010WWW3VWV0=00=d5=56Y0WVX0W0=000=52/5WV00W02VX0=0R=0.=02=.",
     (0.363147, 0.0393692), (0.385517, 0.0364876), 1.21445, (9, 60)),
    ("2", "0W0020W140.00X0T00WU00W00=UU13.W2W/0W00Wb0W01WV02=00000V4W=1",
     (0.2368, 0.46587), (0.233474, 0.436286), 1.03309, (5, 60)),
    ("2", "0W.0000120000T0W00WW23YW600Z000X1Wz0a12.W0V22XW50=00000T0T=0",
     (0.205011, 0.426505), (0.198618, 0.350944), 1.00995, (5, 60)),
    ("2", "............................................................",
     (None, None), (None, None), None, (60, 60)),
    ("X", "0.00a0=00W00R0100000=W0=W0a10W00200=1W1W.ay/00000W010.41=W0=",
     (0.262465, 0.315015), (0.250772, 0.157755), None, (9, 60)),
    ("X", "1.+0=U=+.=.=V0=0zX0=W=W0W=WWzWR=+W/.0=0W000=zT0Z0W0a===0=Y==",
     (0.5713, 0.835724), (0.588341, 0.663448), None, (6, 60)),
    ("X", "00=20=00=02400=03=0YW00/12=W0+0=/00430=00Y10=00=20003=00=7==",
     (0.328125, 0.000443968), (0.326654, 0.000494654), None, (3, 60)),
    ("X", "000WW0=00W0/U02S00..10W0s=0W03V03W00=30/000=2W00Y00=0..00a00",
     (0.261009, 0.75086), (0.264636, 0.721909), None, (7, 60)),
    ("XY", "100V003010110051011010000Z00300=00005=000U0013000V10W42WW0X0",
     (0.109115, 0.0991672), (0.1114, 0.085279), 1.13696, (3, 60)),
    ("Y", "00=1==0000.=0==00011=22=00=.0=0000z000=00006=3=200=04=02=01/",
     (0.390625, None), (0.4375, None), 0.962209, (2, 26)),
    ("Y", "50==01+=000/00=0=z=0=0=010/+=010z10240=1y0=00z==+=0===+z0==0",
     (0.608774, None), (0.60394, None), 0.954384, (2, 26)),
    ("MT", "====.==00==0+42x====v==30x0=0=y=0=0==2===0===y500====0==0=/0",
     (0.674788, None), (0.658019, None), None, (8, 60)),
]  # fmt: skip
# Person, F, F with the frequencies of founders, MISSING_CT, OBS_CT.
PEOPLE = [
    (0, 0.688459, 0.693504, 3, 27), (1, 0.349783, 0.358276, 5, 27), (2, 0.791717, 0.794554, 7, 29), (3, 0.520566, 0.527937, 4, 27),
    (7, -0.0829044, -0.0676696, 3, 29), (17, 0.31187, 0.320161, 5, 27),
    (41, 0.436865, 0.446009, 6, 27), (44, 0.858192, 0.860263, 1, 27), (59, 0.392951, 0.401421, 2, 27),
]  # fmt: skip
# Later and earlier person, NSNP, HETHET, IBS0, KINSHIP of 0.45 and more; --autosome --make-king-table.
RELATIVES = [
    (11, 8, 14, 0.428571, 0, 0.458333), (11, 10, 14, 0.428571, 0, 0.458333), (20, 7, 17, 0.294118, 0, 0.45), (24, 0, 16, 0.125, 0, 0.5),
    (26, 8, 14, 0.5, 0, 0.464286), (26, 11, 15, 0.6, 0, 0.472222), (43, 9, 13, 0.230769, 0, 0.5), (48, 12, 15, 0.133333, 0, 0.5),
    (50, 35, 15, 0.333333, 0, 0.5), (53, 35, 16, 0.375, 0, 0.5), (53, 50, 19, 0.315789, 0, 0.5), (56, 8, 15, 0.333333, 0, 0.45),
    (56, 32, 16, 0.3125, 0, 0.45),
]  # fmt: skip
# Variants that --indep-pairwise keeps: 6 1 0.3 of chromosomes 1 and 2, with and without the children; 6 1 0.05 of X, of everyone
# and of a fileset without the children (with --keep-founders, or children in the file, 2.00a3.5 takes other people's calls on X).
PRUNED, PRUNED_X, PRUNED_X_FOUNDERS = (2, 5, 8, 9, 15, 17, 18), (22, 24), (22, 23)
# Person, SCORE1_SUM, the same and SCORE1_AVG without mean imputation; on chromosomes 1, 2 and MT, --nonfounders.
SCORES = [
    (0, 0.825247, 0.873047, 0.0223858), (1, 1.85742, 1.85742, 0.045303), (5, -0.216043, -0.644531, -0.0165264),
    (20, 0.803711, 0.803711, 0.0196027), (45, 0.724609, 0.724609, 0.0176734), (59, 0.123518, 0.078125, 0.00200321),
]  # fmt: skip
# --autosome --maf 0.0001 --nonfounders --pca 3; person, PC1 to PC3.
EIGENVALUES = (15.029, 10.4242, 8.74756)
AXES = [
    (0, 0.156298, 0.146053, -0.0515966), (1, -0.141008, -0.0128192, 0.0500612), (2, 0.208822, 0.0879087, -0.099429),
    (20, 0.0173527, 0.178592, -0.0632516), (45, -0.165195, 0.195683, 0.0543549), (59, -0.181939, 0.115348, 0.22388),
]  # fmt: skip


def imputed_cohort(*chromosomes: str, families: bool = False) -> Cohort:
    """The cohort's variants, or those on some chromosomes; with `families` the people have father_id, and the children's is known."""
    steps = np.array([[STEPS.find(step) for step in variant[1]] for variant in VARIANTS])
    dosages = np.where(steps < 0, np.nan, steps / 32).astype(np.float32)
    frame = pl.DataFrame(
        {
            "chromosome": [variant[0] for variant in VARIANTS],
            "base_pair_location": range(100, 100 + len(VARIANTS)),
            "variant_id": [f"v{row}" for row in range(len(VARIANTS))],
            "ref": ["A"] * len(VARIANTS),
            "alt": ["C"] * len(VARIANTS),
        }
    )
    number = pl.int_range(len(SEX))
    people = pl.select(sample_id=pl.format("I{}", number), sex=pl.Series(list(SEX)).cast(pl.Int8))
    if families:
        people = people.with_columns(father_id=pl.when(number.is_in(list(CHILDREN))).then(pl.lit("I1")))
    rows = np.flatnonzero([not chromosomes or name in chromosomes for name in frame["chromosome"]])
    return Cohort(Part(frame[rows], {"alt_dosages": dosages[rows]}), people)


def weights() -> pl.DataFrame:
    """The weights of SCORES, of ALT and REF."""
    number = pl.int_range(len(VARIANTS))
    rows = pl.select(
        variant_id=pl.format("v{}", number),
        effect_allele=pl.when(number % 3 == 0).then(pl.lit("A")).otherwise(pl.lit("C")),
        weight=(number % 7 - 3) / 8 + 0.0625,
        number=number,
    )
    return rows.filter(pl.col("number") != 20).drop("number")
