from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.kernels.device import counts as on_device
from pipeline.kernels.genotypes import (
    alt_frequency,
    call_counts,
    missing_calls,
    missing_sums,
    pack,
    packed_width,
    sample_counts,
    take_samples,
    unpack,
    variant_blocks,
)
from tests.kernels.plink_files import DATA, REFERENCE, assert_printed, needs_data, read_bed, read_columns

SIZES = [(0, 5), (1, 1), (3, 4), (14, 32), (256, 7), (700, 33), (511, 130), (300, 517)]


def random_calls(n_variants: int, n_samples: int) -> NDArray[np.int8]:
    return np.random.default_rng(n_variants + n_samples).integers(0, 4, (n_variants, n_samples)).astype(np.int8)


def test_pack__puts_sample_0_into_the_lowest_bits_and_pads_with_0() -> None:
    packed = pack(np.array([[1, 2, 3, 0, 2]], np.int8))
    assert packed.tolist() == [[0b00_11_10_01, 0b00_00_00_10]]


def test_pack__takes_minus_1_as_missing() -> None:
    assert pack(np.array([[-1, 0]], np.int8)).tolist() == [[0b00_11]]


@pytest.mark.parametrize("wrong", [4, -2, 127])
def test_pack__refuses_other_values(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"found {wrong}"):
        pack(np.array([[0, 1, wrong]], np.int8))


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_unpack__gives_back_what_was_packed(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    assert np.array_equal(unpack(pack(calls), n_samples), calls)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
def test_unpack__replaces_missing_calls(dtype: type[np.generic]) -> None:
    found = unpack(pack(np.array([[0, 1, 2, 3, 1]], np.int8)), 5, dtype, missing=-9)
    assert found.dtype == dtype
    assert found.tolist() == [[0, 1, 2, -9, 1]]


def test_unpack__refuses_a_width_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="9 samples are 3 bytes a variant"):
        unpack(np.zeros((2, 2), np.uint8), 9)


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_counts__equal_those_of_the_unpacked_calls(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    packed = pack(calls)
    per_variant = np.stack([(calls == code).sum(axis=1) for code in range(4)], axis=1)
    per_sample = np.stack([(calls == code).sum(axis=0) for code in range(4)], axis=1)
    assert np.array_equal(call_counts(packed, n_samples), per_variant)
    assert np.array_equal(sample_counts(packed, n_samples), per_sample)


def test_sample_counts__hold_more_variants_of_one_state_than_a_byte_counts() -> None:
    for code in range(4):
        counts = sample_counts(pack(np.full((1021, 6), code, np.int8)), 6)
        assert counts.tolist() == [[1021 * (state == code) for state in range(4)]] * 6


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_compiled_kernels__give_what_the_plain_ones_do(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    index = np.flatnonzero(np.random.default_rng(2).random(n_samples) < 0.8)
    for packed in (pack(calls), pack(np.full_like(calls, 3)), pack(np.zeros_like(calls))):
        counts, samples = np.zeros((n_variants, 4), np.int64), np.zeros((4 * packed.shape[1], 4), np.int64)
        on_device.variant_counts.plain(packed, np.empty(0, np.uint8), n_samples, counts)
        assert np.array_equal(call_counts(packed, n_samples), counts)
        on_device.sample_counts.plain(packed, samples)
        assert np.array_equal(sample_counts(packed, n_samples), samples[:n_samples])
        taken = np.empty((n_variants, packed_width(len(index))), np.uint8)
        on_device.take_samples.plain(packed, index, taken)
        assert np.array_equal(take_samples(packed, n_samples, index), taken)


def test_counts__take_calls_that_cannot_be_written_and_rows_that_are_not_next_to_each_other() -> None:
    calls = random_calls(60, 45)
    packed = pack(calls)
    packed.flags.writeable = False
    assert np.array_equal(call_counts(packed[::2], 45)[:, 3], (calls[::2] == 3).sum(axis=1))
    assert np.array_equal(sample_counts(packed[::-3], 45)[:, 2], (calls[::-3] == 2).sum(axis=0))


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_call_counts__of_some_samples_are_those_of_their_calls(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    among = np.random.default_rng(3).random(n_samples) < 0.4
    assert np.array_equal(call_counts(pack(calls), n_samples, among), call_counts(pack(calls[:, among]), int(among.sum())))


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_missing_sums__add_the_weights_of_missing_calls(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    weights = np.random.default_rng(4).normal(size=n_variants)
    np.testing.assert_allclose(missing_sums(pack(calls), n_samples, weights), weights @ (calls == 3), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("n_variants", "n_samples"), SIZES)
def test_take_samples__orders_and_repeats_as_the_index_says(n_variants: int, n_samples: int) -> None:
    calls = random_calls(n_variants, n_samples)
    index = np.random.default_rng(1).integers(0, n_samples, 2 * n_samples + 1)
    taken = take_samples(pack(calls), n_samples, index)
    assert np.array_equal(taken, pack(calls[:, index]))


def test_take_samples__can_take_none() -> None:
    assert take_samples(pack(random_calls(3, 5)), 5, np.array([], int)).shape == (3, 0)


@pytest.mark.parametrize("index", [[0, 5], [-1, 2]])
def test_take_samples__refuses_an_index_out_of_range(index: list[int]) -> None:
    with pytest.raises(ValueError, match=r"run from 0 to 4; found -?\d to \d"):
        take_samples(pack(random_calls(3, 5)), 5, np.array(index))


def test_missing_calls__lists_them_by_variant() -> None:
    calls = random_calls(50, 13)
    assert np.array_equal(np.stack(missing_calls(pack(calls), 13)), np.stack(np.nonzero(calls == 3)))


def test_rates__are_nan_where_nobody_is_called() -> None:
    counts = call_counts(pack(np.array([[3, 3, 3], [0, 2, 3], [2, 2, 1]], np.int8)), 3)
    assert np.array_equal(alt_frequency(counts), [np.nan, 0.5, 5 / 6], equal_nan=True)


def test_variant_blocks__cover_everything_once_within_the_limit() -> None:
    blocks = list(variant_blocks(10, 30, limit=100))
    assert [(block.start, block.stop) for block in blocks] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [(block.start, block.stop) for block in variant_blocks(2, 300, limit=100)] == [(0, 1), (1, 2)]


@needs_data
def test_counts__are_those_that_plink_printed_for_hapmap3() -> None:
    packed, n_samples = read_bed(DATA / "hapmap3" / "data")
    variants, people = (read_columns(REFERENCE / "hapmap3" / name) for name in ("qc.vmiss", "qc.smiss"))
    diploid = np.isin(variants["CHROM"], [*map(str, range(1, 23)), "XY"])  # PLINK counts X and MT by sex
    counts = call_counts(packed, n_samples)
    assert np.array_equal(counts[diploid, 3], variants["MISSING_CT"][diploid].astype(int))
    alleles = read_columns(REFERENCE / "hapmap3" / "qc.acount")
    assert np.array_equal((counts @ [0, 1, 2, 0])[diploid], alleles["ALT_CTS"][diploid].astype(int))
    assert_printed(alt_frequency(counts)[diploid], read_columns(REFERENCE / "hapmap3" / "qc.afreq")["ALT_FREQS"][diploid], 1e-9)
    assert np.array_equal(sample_counts(packed, n_samples)[:, 3], people["MISSING_CT"].astype(int))


@needs_data
@pytest.mark.parametrize(("folder", "prefix"), [("kgchr20", REFERENCE / "kgchr20" / "chr20"), ("regenie_example", None)])
def test_counts__are_those_that_plink_printed(folder: str, prefix: Path | None) -> None:
    packed, n_samples = read_bed(prefix or DATA / "regenie_example" / "example.bed")
    counts = call_counts(packed, n_samples)
    frequencies, variants, people = (read_columns(REFERENCE / folder / name) for name in ("qc.afreq", "qc.vmiss", "qc.smiss"))
    assert_printed(alt_frequency(counts), frequencies["ALT_FREQS"], 1e-9)
    assert np.array_equal(2 * (n_samples - counts[:, 3]), frequencies["OBS_CT"].astype(int))
    assert np.array_equal(counts[:, 3], variants["MISSING_CT"].astype(int))
    assert np.array_equal(sample_counts(packed, n_samples)[:, 3], people["MISSING_CT"].astype(int))
