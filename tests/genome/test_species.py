"""Chromosome sets: their numbers and names, in files of every format, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from pipeline.errors import InputError
from pipeline.formats._plink.bed_files import read_bim
from pipeline.formats._plink.pgen_files import read_pvar
from pipeline.formats.bgen import BgenInput
from pipeline.formats.pgen import PgenInput
from pipeline.formats.plink import PlinkInput
from pipeline.formats.vcf import VcfInput
from pipeline.genome.chromosomes import autosomes_of, chromosome_key, chromosome_kind, natural_order, on_autosome
from pipeline.genome.inputs import OTHER_SPECIES, SpeciesInput
from pipeline.genome.species import SPECIES, ChromosomeSet
from pipeline.plan.lineage import Lineage
from tests.formats.reading import read

COW = ChromosomeSet(29)
KINDS = {"1": "autosome", "chr22": "autosome", "23": "autosome", "26": "autosome", "29": "autosome", "30": "x", "X": "x", "31": "y",
         "chrY": "y", "32": "par", "XY": "par", "33": "mt", "MT": "mt", "34": None, "NKLS02": None}  # fmt: skip


def of(**given: Any) -> SpeciesInput:
    return SpeciesInput.model_validate({"path": "x", **given})


def test_chromosome_kind__numbers_follow_the_autosomes_and_letters_are_the_same_in_every_set() -> None:
    frame = pl.DataFrame({"chromosome": list(KINDS)})
    found = frame.select(kind=chromosome_kind(autosomes=29), on=on_autosome(autosomes=29), key=chromosome_key(autosomes=29))
    assert found["kind"].to_list() == list(KINDS.values())
    assert found["on"].to_list() == [kind == "autosome" for kind in KINDS.values()]
    assert found["key"].to_list()[2:14] == ["23", "26", "29", "X", "X", "Y", "Y", "X", "X", "MT", "MT", "34"]


def test_natural_order__puts_letters_after_the_numbers_of_any_species() -> None:
    names = ["MT", "29", "X", "chr26", "2", "scaffold", "Y"]
    assert sorted(names, key=natural_order) == ["2", "chr26", "29", "X", "Y", "MT", "scaffold"]


@pytest.mark.parametrize(
    ("stated", "autosomes"), [*SPECIES.items(), ("Cow", 29), (29, 29), ("29", 29), (1, 1), (95, 95), (-10, -10), ("-10", -10)]
)
def test_chromosomes__are_a_number_or_a_species(stated: int | str, autosomes: int) -> None:
    assert of(chromosomes=stated).chromosome_set == ChromosomeSet(autosomes)


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        ("yak", r"'yak' is no species that is known here \(human, cow, .*give its number of autosomes"),
        (0, "a species has autosomes; .*-1 to -95 where all chromosomes are haploid"),
        (-96, "greater than or equal to -95"),
        (96, "less than or equal to 95"),
    ],
)
def test_chromosomes__of_another_kind_are_refused(stated: int | str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        of(chromosomes=stated)


def test_species__is_told_by_the_people_unless_it_is_as_ever() -> None:
    people = pl.DataFrame({"sample_id": ["a", "b"]})
    assert of().of_species(people) is people
    assert autosomes_of(people) == 22
    assert autosomes_of(of(chromosomes="dog").of_species(people)) == 38


def test_tables_of_two_species__never_meet_in_a_stage() -> None:
    lineage = Lineage()
    for name, stated in {"cows": 29, "more_cows": "cow", "people": 22}.items():
        lineage.add_input(name, of(chromosomes=stated).marks())
    assert lineage.add_stage("both", {"genotypes": "cows", "loadings": "more_cows"}) is None
    refused = lineage.add_stage("mixed", {"genotypes": "cows", "loadings": "people"})
    assert refused == (
        f"the tables are of different chromosome sets, 29 autosomes (input 'cows') and 22 autosomes (input 'people'), {OTHER_SPECIES}"
    )


def write_bim(folder: Path, *chromosomes: str) -> Path:
    file = folder / "x.bim"
    file.write_text("".join(f"{name}\tv{i}\t0\t{i + 1}\tC\tA\n" for i, name in enumerate(chromosomes)))
    return file


def write_pvar(folder: Path, *chromosomes: str) -> Path:
    file = folder / "x.pvar"
    file.write_text("#CHROM\tPOS\tID\tREF\tALT\n" + "".join(f"{name}\t{i + 1}\tv{i}\tA\tC\n" for i, name in enumerate(chromosomes)))
    return file


def write_vcf(folder: Path, *chromosomes: str, contigs: tuple[str, ...] = ()) -> Path:
    file = folder / "x.vcf"
    head = "##fileformat=VCFv4.2\n" + "".join(f"##contig=<ID={name}>\n" for name in contigs)
    head += "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\tb\n"
    file.write_text(head + "".join(f"{name}\t{i + 1}\tv{i}\tA\tC\t.\t.\t.\tGT\t0/1\t1/1\n" for i, name in enumerate(chromosomes)))
    return file


def test_plinks_tables__name_the_numbers_after_the_autosomes_by_letters(tmp_path: Path) -> None:
    written, named = ("1", "23", "26", "29", "30", "31", "32", "33", "X", "NKLS02", "0"), ["X", "Y", "XY", "MT", "X", "NKLS02", "0"]
    assert read_bim(write_bim(tmp_path, *written), COW)["chromosome"].to_list() == ["1", "23", "26", "29", *named]
    assert read_pvar(write_pvar(tmp_path, *written), COW).rows["chromosome"].to_list() == ["1", "23", "26", "29", *named]
    assert read_bim(write_bim(tmp_path, "22", "23", "26"))["chromosome"].to_list() == ["22", "X", "MT"]


def test_plinks_tables__refuse_what_the_species_has_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x.bim: chromosome '34' is not in the chromosome set, 29 autosomes \(X 30, Y 31, XY 32, MT 33\)"):
        read_bim(write_bim(tmp_path, "1", "34"), COW)
    with pytest.raises(InputError, match=r"x.pvar: chromosome 'chr24' is not in .* 19 autosomes .*Correct `chromosomes`"):
        read_pvar(write_pvar(tmp_path, "1", "chr24"), ChromosomeSet(19))
    plant = ChromosomeSet(10, ("x", "y", "xy"))
    for name in ("11", "chrX", "PAR1"):
        with pytest.raises(InputError, match=rf"chromosome '{name}' is not in the chromosome set, 10 autosomes \(MT 14\)"):
            read_bim(write_bim(tmp_path, "10", name), plant)
    assert read_bim(write_bim(tmp_path, "10", "14"), plant)["chromosome"].to_list() == ["10", "MT"]


def test_a_haploid_genome__has_its_chromosomes_mt_and_scaffolds_alone(tmp_path: Path) -> None:
    rice = ChromosomeSet(SPECIES["rice"])
    kept = ["1", "chr12", "0", "MT", "scaffold_9", "Pt"]
    assert read_bim(write_bim(tmp_path, *kept), rice)["chromosome"].to_list() == kept
    for name in ("13", "16", "X", "chrY", "XY"):
        with pytest.raises(InputError, match=rf"chromosome '{name}' is not in the chromosome set, 12 haploid chromosomes\. Correct"):
            read_bim(write_bim(tmp_path, "1", name), rice)
    names = pl.DataFrame({"chromosome": ["1", "MT", "13"]})
    found = names.select(kind=chromosome_kind(autosomes=-12), on=on_autosome(autosomes=-12), key=chromosome_key(autosomes=-12))
    assert found.to_dict(as_series=False) == {"kind": ["haploid", "mt", "haploid"], "on": [True, False, True], "key": ["1", "MT", "13"]}


CONTIGS = ("1", "chr22", "23", "26", "0", "GL000192.1", "chrUn_KI270302v1", "HLA-A*01:01", "chr1_random", "Un", "hs37d5", "NC_007605")


@pytest.mark.parametrize("letters", [(), ("X", "Y", "PAR1", "PAR2")])
def test_people__keep_their_contigs_and_pseudoautosomal_regions(tmp_path: Path, letters: tuple[str, ...]) -> None:
    names = [name for name in CONTIGS if not letters or name not in ("23", "26")] + [*letters]
    assert read_bim(write_bim(tmp_path, *names)).height == len(names)
    table = VcfInput.model_validate({"path": str(write_vcf(tmp_path, *names, contigs=tuple(names)))})
    assert table.table_schema().columns
    assert read(table).frame["chromosome"].to_list() == names


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("1", "26", "29"), r"chromosome '29' is not in the chromosome set, 22 autosomes .*an input has unless it says another; .*cow"),
        (("1", "chr38"), r"chromosome 'chr38' is not in"),
        (("1", "26", "chrM"), r"has chromosomes 26 and MT, which are one in the chromosome set, 22 autosomes .*sheep"),
        (("23", "X"), r"has chromosomes 23 and X, which are one"),
    ],
)
def test_a_herd_that_nobody_says_is_one__is_refused_in_every_format(tmp_path: Path, names: tuple[str, ...], why: str) -> None:
    for file in (write_bim(tmp_path, *names), write_pvar(tmp_path, *names)):
        with pytest.raises(InputError, match=why):
            read_pvar(file)
    with pytest.raises(InputError, match=why):
        VcfInput.model_validate({"path": str(write_vcf(tmp_path, contigs=names))}).table_schema()
    with pytest.raises(InputError, match=why):
        read(VcfInput.model_validate({"path": str(write_vcf(tmp_path, *names))}))


def test_vcf__refuses_contigs_of_another_species_before_it_reads_and_records_when_it_does(tmp_path: Path) -> None:
    cow = VcfInput.model_validate({"path": str(write_vcf(tmp_path, "1", "29", "30", contigs=("1", "29", "30"))), "chromosomes": "cow"})
    assert read(cow).frame["chromosome"].to_list() == ["1", "29", "30"]
    assert autosomes_of(cow.axes()["calls"]) == 29
    assert cow.table_schema().arrays["calls"] == cow.axes()["calls"].schema
    mouse = cow.model_copy(update={"chromosomes": 19})
    with pytest.raises(InputError, match=r"x.vcf: chromosome '29' is not in the chromosome set, 19 autosomes"):
        mouse.table_schema()
    write_vcf(tmp_path, "1", "29")
    assert mouse.table_schema().columns
    with pytest.raises(InputError, match=r"x.vcf: chromosome '29' is not in the chromosome set, 19 autosomes"):
        read(mouse)


@pytest.mark.parametrize(
    ("line", "stated", "why"),
    [
        ("##chrSet=<ID=1,autosomePairCt=29,X,Y,M>", 22, "says 29 autosomes .*the input says 22 autosomes. Say chromosomes: 29"),
        ("##chrSet=<ID=1,autosomePairCt=29,X,Y,M>", 19, "says 29 autosomes .*the input says 19 autosomes. Say chromosomes: 29"),
        ("##chrSet=<ID=1,haploidAutosomeCt=12>", 12, "says 12 haploid chromosomes .*the input says 12 autosomes. Say chromosomes: -12"),
        ("##chrSet=<ID=1,autosomePairCt=12,X,Y,M>", -12, "says 12 autosomes .*the input says 12 haploid chromosomes. Say chromosomes: 12"),
        ("##chrSet=<ID=1,haploidAutosomeCt=12>", -12, ""),
        ("##chrSet=<ID=1,autosomePairCt=29,X,Y,M>", 29, ""),
        ("##chrSet=<ID=1,autosomePairCt=22,X,Y,XY,M,PAR1,PAR2>", 22, ""),
    ],
)
def test_a_header_of_plink__that_says_another_species_is_refused(tmp_path: Path, line: str, stated: int, why: str) -> None:
    pvar, vcf = write_pvar(tmp_path, "1"), write_vcf(tmp_path, "1")
    pvar.write_text(f"{line}\n{pvar.read_text()}")
    vcf.write_text(vcf.read_text().replace("VCFv4.2\n", f"VCFv4.2\n{line}\n"))
    table = VcfInput.model_validate({"path": str(vcf), "chromosomes": stated})
    if not why:
        assert read_pvar(pvar, ChromosomeSet(stated)).variants == read(table).frame.height == 1
        return
    with pytest.raises(InputError, match=rf"x\.pvar: its header {why}"):
        read_pvar(pvar, ChromosomeSet(stated))
    with pytest.raises(InputError, match=rf"x\.vcf: its header {why}"):
        table.table_schema()


def test_bgen__names_and_refuses_chromosomes_by_the_species(tmp_path: Path) -> None:
    bgen = pytest.importorskip("bgen")
    with bgen.BgenWriter(str(tmp_path / "x.bgen"), 2, samples=["a", "b"], compression="zlib", layout=2) as writer:
        for place, name in enumerate(("01", "26", "30")):
            writer.add_variant(f"v{place}", f"rs{place}", name, place + 1, ["A", "C"], np.eye(3)[:2], bit_depth=8)
    cow = BgenInput.model_validate({"path": str(tmp_path / "x.bgen"), "chromosomes": "cow"})
    assert read(cow).frame["chromosome"].to_list() == ["1", "26", "X"]
    assert autosomes_of(cow.axes()["alt_dosages"]) == 29
    with pytest.raises(InputError, match=r"x.bgen: chromosome '26' is not in the chromosome set, 19 autosomes"):
        read(cow.model_copy(update={"chromosomes": 19}))


def test_pgen__names_chromosomes_by_the_species_and_its_people_tell_it(tmp_path: Path) -> None:
    pgenlib = pytest.importorskip("pgenlib")
    write_pvar(tmp_path, "26", "30")
    (tmp_path / "x.psam").write_text("#IID\tSEX\na\t1\nb\t2\n")
    with pgenlib.PgenWriter(str(tmp_path / "x.pgen").encode(), 2, variant_ct=2) as writer:
        for row in ([0, 1], [2, 1]):
            writer.append_biallelic(np.array(row, np.int8))
    cow = PgenInput.model_validate({"path": str(tmp_path / "x.pgen"), "chromosomes": "cow"})
    assert read(cow).frame["chromosome"].to_list() == ["26", "X"]
    assert cow.axes()["calls"].schema == cow.table_schema().arrays["calls"]
    assert autosomes_of(cow.axes()["calls"]) == 29
    with pytest.raises(InputError, match=r"x.pvar: chromosome '26' is not in the chromosome set, 19 autosomes"):
        cow.model_copy(update={"chromosomes": 19}).table_schema()


def test_plink__reads_a_fileset_anew_for_another_species(tmp_path: Path) -> None:
    write_bim(tmp_path, "26")
    (tmp_path / "x.fam").write_text("f a 0 0 1 -9\n")
    (tmp_path / "x.bed").write_bytes(b"\x6c\x1b\x01\x02")
    found = {
        stated: read(PlinkInput.model_validate({"path": str(tmp_path / "x.bed"), "chromosomes": stated})).frame["chromosome"].item()
        for stated in ("human", "cow", "sheep", 25)
    }
    assert found == {"human": "MT", "cow": "26", "sheep": "26", 25: "X"}
