"""The Sequence Ontology terms of consequences, and the bits that stand for them."""

from __future__ import annotations

TERMS = (
    "splice_acceptor_variant",
    "splice_donor_variant",
    "stop_gained",
    "frameshift_variant",
    "stop_lost",
    "start_lost",
    "inframe_insertion",
    "inframe_deletion",
    "missense_variant",
    "protein_altering_variant",
    "splice_region_variant",
    "start_retained_variant",
    "stop_retained_variant",
    "synonymous_variant",
    "coding_sequence_variant",
    "5_prime_UTR_variant",
    "3_prime_UTR_variant",
    "non_coding_transcript_exon_variant",
    "intron_variant",
    "non_coding_transcript_variant",
    "intergenic_variant",
)
"""The terms, the most severe first, in the order of Ensembl's VEP."""
BIT = {term: 1 << place for place, term in enumerate(TERMS)}
