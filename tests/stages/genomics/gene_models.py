"""Simulated genomes: genes on both strands, with several transcripts, overlapping, incomplete ones too; and variants."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

COMPLEMENT = str.maketrans("ACGTNacgtn", "TGCANtgcan")
CODE = dict(
    zip(
        (a + b + c for a in "TCAG" for b in "TCAG" for c in "TCAG"),
        "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG",
        strict=True,
    )
)
STOPS = ("TAA", "TAG", "TGA")
Variant = tuple[str, int, str, str]  # chromosome, position, REF, ALT


@dataclass
class Transcript:
    """Exons by position; `coding` are the positions that code, in its direction, of which `phase` come before the first whole codon."""

    name: str
    exons: list[tuple[int, int]]
    coding: list[int] = field(default_factory=list)
    phase: int = 0
    has_stop: bool = True

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Coding parts in its direction, with phases."""
        inside, done = set(self.coding), 0
        pieces = [here for a, b in self.exons if (here := [p for p in range(a, b + 1) if p in inside])]
        for piece in sorted(pieces, reverse=len(self.coding) > 1 and self.coding[0] > self.coding[1]):
            yield piece[0], piece[-1], (self.phase - done) % 3
            done += len(piece)

    def untranslated(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Parts of exons before and after what codes, by position."""
        low, high = min(self.coding), max(self.coding)
        before = [(a, min(b, low - 1)) for a, b in self.exons if a < low]
        return before, [(max(a, high + 1), b) for a, b in self.exons if b > high]


@dataclass
class Gene:
    """Transcripts on one strand of a chromosome."""

    name: str
    chromosome: str
    strand: str
    transcripts: list[Transcript] = field(default_factory=list)


@dataclass
class Genome:
    """Sequences by chromosome, and genes."""

    sequences: dict[str, str]
    genes: list[Gene]

    def coding(self, gene: Gene, transcript: Transcript, variant: Variant | None = None) -> str:
        """The coding sequence from its first whole codon on, with the change that a variant makes."""
        sequence = self.sequences[gene.chromosome]
        at, ref, alt = _trimmed(*(variant or ("", 0, "", ""))[1:])
        changed = {at + i: "" for i in range(len(ref))}
        if ref:
            changed[at] = alt
        elif alt:
            changed[at - 1] = sequence[at - 2].upper() + alt
        bases = [changed.get(position, sequence[position - 1]).upper() for position in transcript.coding]
        if gene.strand == "-":
            bases = [base.translate(COMPLEMENT)[::-1] for base in bases]
        return "".join(bases)[transcript.phase :]

    def fasta(self) -> str:
        """The sequences, in lines of 60."""
        lines = [[f">{name} simulated", *(text[i : i + 60] for i in range(0, len(text), 60))] for name, text in self.sequences.items()]
        return "\n".join(line for some in lines for line in some) + "\n"

    def gtf(self) -> str:
        """Exons, coding parts without the stop codon, and stop codons, as GENCODE writes them."""
        lines = []
        for gene in self.genes:
            for one in gene.transcripts:
                kind = "protein_coding" if one.coding else "lncRNA"
                names = f'gene_id "{gene.name}"; transcript_id "{one.name}"; gene_name "{gene.name}n"; transcript_type "{kind}";'
                stop = set(one.coding[-3:]) if one.has_stop else set()
                rows: list[tuple[str, int, int, object]] = [("exon", a, b, ".") for a, b in one.exons]
                for a, b, phase in one.parts():
                    for feature, some in (("CDS", set(range(a, b + 1)) - stop), ("stop_codon", set(range(a, b + 1)) & stop)):
                        rows += [(feature, min(some), max(some), phase)] if some else []
                lines += [f"{gene.chromosome}\tsim\t{f}\t{a}\t{b}\t.\t{gene.strand}\t{phase}\t{names}" for f, a, b, phase in rows]
        return "\n".join(lines) + "\n"

    def gff3(self) -> str:
        """The same as Ensembl's GFF3, which bcftools csq reads."""
        lines = ["##gff-version 3"]

        def line(gene: Gene, feature: str, place: tuple[int, int], phase: object, names: str) -> None:
            lines.append(f"{gene.chromosome}\tsim\t{feature}\t{place[0]}\t{place[1]}\t.\t{gene.strand}\t{phase}\t{names}")

        for gene in self.genes:
            kind = "protein_coding" if any(one.coding for one in gene.transcripts) else "lincRNA"
            ends = [place for one in gene.transcripts for exon in one.exons for place in exon]
            line(gene, "gene", (min(ends), max(ends)), ".", f"ID=gene:{gene.name};Name={gene.name};biotype={kind};gene_id={gene.name}")
            for one in gene.transcripts:
                parent, place = f"Parent=transcript:{one.name}", (one.exons[0][0], one.exons[-1][1])
                own = "protein_coding" if one.coding else ("processed_transcript" if kind == "protein_coding" else kind)
                names = f"ID=transcript:{one.name};Parent=gene:{gene.name};biotype={own};transcript_id={one.name}"
                line(gene, "mRNA" if one.coding else "lnc_RNA", place, ".", names)
                for exon in one.exons:
                    line(gene, "exon", exon, ".", parent)
                for a, b, phase in one.parts():
                    line(gene, "CDS", (a, b), phase, f"ID=CDS:{one.name};{parent}")
                sides = one.untranslated() if one.coding else ([], [])
                features = ("five_prime_UTR", "three_prime_UTR") if gene.strand == "+" else ("three_prime_UTR", "five_prime_UTR")
                for feature, places in zip(features, sides, strict=True):
                    for exon in places:
                        line(gene, feature, exon, ".", parent)
        return "\n".join(lines) + "\n"


def _trimmed(at: int, ref: str, alt: str) -> tuple[int, str, str]:
    """A change without the bases that both alleles share, at the beginning and then at the end."""
    while ref and alt and ref[0] == alt[0]:
        at, ref, alt = at + 1, ref[1:], alt[1:]
    while ref and alt and ref[-1] == alt[-1]:
        ref, alt = ref[:-1], alt[:-1]
    return at, ref, alt


def simulated(seed: int, lengths: dict[str, int]) -> Genome:
    """A genome full of genes; those whose ends are known begin with ATG and end with a stop codon, with few stops between."""
    chance = random.Random(seed)
    bases = {name: [chance.choice("ACGT") for _ in range(length)] for name, length in lengths.items()}
    genes: list[Gene] = []
    for name, length in lengths.items():
        at = chance.randrange(5, 200)
        while (exons := _exons(chance, at))[-1][1] < length - 20:
            gene = Gene(f"G{len(genes)}", name, chance.choice("+-"))
            for number in range(chance.choice([1, 1, 2, 3])):
                own = [exon for exon in exons if chance.random() < 0.85] or exons[:1]
                gene.transcripts.append(_transcript(chance, gene, f"T{len(genes)}.{number}", own, bases[name]))
            genes.append(gene)
            at = (exons[-1][1] if chance.random() < 0.75 else at + 40) + chance.randrange(2, 60)
    for gene in genes:
        for one in gene.transcripts:
            _without_stops(chance, gene, one, bases[gene.chromosome])
    small = {name: [base.lower() if i % 1000 < 100 else base for i, base in enumerate(some)] for name, some in bases.items()}
    return Genome({name: "".join(some) for name, some in small.items()}, genes)


def _exons(chance: random.Random, at: int) -> list[tuple[int, int]]:
    count, found = chance.choice([1, 1, 2, 3, 4, 6]), []
    for _ in range(count):
        width = chance.choice([3, 9, 25, 60, 120, 200] if count > 1 else [60, 150, 301])
        found.append((at, at + width - 1))
        at += width + chance.choice([25, 40, 90, 300])
    return found


def _transcript(chance: random.Random, gene: Gene, name: str, exons: list[tuple[int, int]], bases: list[str]) -> Transcript:
    one = Transcript(name, exons)
    places = [place for a, b in exons for place in range(a, b + 1)][:: 1 if gene.strand == "+" else -1]
    if len(places) < 16 or chance.random() < 0.15:
        return one
    five, three = chance.choice([0, 0, 1, 7, 20]), chance.choice([0, 0, 2, 9, 30])
    coding = places[five : len(places) - three] if five + three + 9 <= len(places) else places
    kind = chance.choice(["whole"] * 6 + ["no start", "no stop"])
    one.phase, one.has_stop = chance.choice([1, 2]) if kind == "no start" else 0, kind != "no stop"
    extra = (len(coding) - one.phase) % 3 if one.has_stop else 0
    one.coding = coding[: len(coding) - extra]
    for begins, codon, wanted in ((0, "ATG", one.phase == 0), (len(one.coding) - 3, chance.choice(STOPS), one.has_stop)):
        for i, base in enumerate(codon if wanted else ""):
            bases[one.coding[begins + i] - 1] = base if gene.strand == "+" else base.translate(COMPLEMENT)
    return one


def _without_stops(chance: random.Random, gene: Gene, one: Transcript, bases: list[str]) -> None:
    for i in range(one.phase, len(one.coding) - 5, 3):
        codon = "".join(bases[place - 1] for place in one.coding[i : i + 3])
        if (codon if gene.strand == "+" else codon.translate(COMPLEMENT)) in STOPS and chance.random() < 0.95:
            bases[one.coding[i] - 1] = {"T": "C", "A": "G"}[bases[one.coding[i] - 1]]


def variants_of(genome: Genome, seed: int, count: int) -> list[Variant]:
    """Substitutions, insertions, deletions and both at once, most in coding parts and about the ends of exons and of these."""
    chance, found = random.Random(seed), set[Variant]()
    every = [(gene.chromosome, one) for gene in genome.genes for one in gene.transcripts]
    ends = [(name, place) for name, one in every for exon in one.exons for place in exon]
    edges = [(name, place) for name, one in every for place in one.coding[:4] + one.coding[-4:]]
    inner = [(name, place) for name, one in every for place in one.coding]
    names = list(genome.sequences)
    while len(found) < count:
        kind = chance.random()
        name, at = (
            (name := chance.choice(names), chance.randrange(1, len(genome.sequences[name]) + 1))
            if kind < 0.2
            else chance.choice(ends if kind < 0.5 else edges if kind < 0.65 else inner)
        )
        at += chance.randrange(-11, 12) if 0.2 <= kind < 0.5 else 0
        sequence = genome.sequences[name].upper()
        if 1 <= at <= len(sequence) - 31 and (alleles := _alleles(chance, sequence[at - 1 :])):
            found.add((name, at, *alleles))
    return sorted(found, key=lambda variant: (names.index(variant[0]), *variant[1:]))


def _alleles(chance: random.Random, sequence: str) -> tuple[str, str] | None:
    def bases(count: int) -> str:
        return "".join(chance.choice("ACGT") for _ in range(count))

    kind = chance.random()
    if kind < 0.5:
        width = 1 if kind < 0.4 else chance.choice([2, 2, 3, 4, 6])
        ref, alt = sequence[:width], bases(width)
    elif kind < 0.75:
        ref, alt = sequence[: 1 + chance.choice([1, 1, 2, 3, 3, 6, 9, 4, 30])], sequence[0]
    elif kind < 0.95:
        ref, alt = sequence[0], sequence[0] + bases(chance.choice([1, 1, 2, 3, 3, 6, 9, 4]))
    else:
        ref, alt = sequence[: chance.choice([1, 2, 3, 5])], bases(chance.choice([2, 3, 4, 7]))
    return None if ref == alt else (ref, alt)


def vcf(genome: Genome, variants: list[Variant]) -> str:
    """The variants without genotypes."""
    contigs = "".join(f"##contig=<ID={name},length={len(text)}>\n" for name, text in genome.sequences.items())
    rows = "".join(f"{name}\t{at}\t.\t{ref}\t{alt}\t.\t.\t.\n" for name, at, ref, alt in variants)
    return f"##fileformat=VCFv4.2\n{contigs}#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n{rows}"


def protein(sequence: str) -> str:
    """Amino acids of whole codons, X for those with other letters."""
    return "".join(CODE.get(sequence[i : i + 3], "X") for i in range(0, len(sequence) - 2, 3))
