"""Gradients that are sent in fewer bytes: nothing of them is lost, and training comes as far."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from pipeline.backend.neural import neural_devices, run_program
from pipeline.neural.compressed import Compression
from pipeline.neural.mesh import MeshSteps
from pipeline.neural.perceptron import initial
from tests.neural.batches import CODES, batch, on_one_device, task, trained

pytestmark = pytest.mark.long  # JAX compiles its programs

WAYS = [Compression("int8"), Compression("top_k", 0.1)]


def rounds_of(way: Compression, gradients: Any) -> tuple[Any, Any]:
    """What was summed in each of some rounds, [rounds, size], and what each device has left, of gradients [rounds, devices, size]."""
    devices = gradients.shape[1]
    mesh, cut = Mesh(np.array(neural_devices("cpu", devices)), ("data",)), PartitionSpec("data")

    def of_device(gradient: Any, left: Any) -> tuple[Any, Any]:
        found, rest = way.summed(gradient[0], left[0], devices)
        return found, rest[None]

    program = jax.jit(jax.shard_map(of_device, mesh=mesh, in_specs=(cut, cut), out_specs=(PartitionSpec(), cut), check_vma=False))
    left, sums = np.zeros_like(gradients[0]), []
    for gradient in gradients:
        found, left = run_program(program, gradient, left)
        sums.append(np.asarray(found))
    return np.array(sums), np.asarray(left)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.kind)
def test_what_is_not_sent__goes_into_the_next_step(way: Compression) -> None:
    gradients = np.random.default_rng(3).normal(size=(4, 8, 103)).astype(np.float32)
    sums, left = rounds_of(way, gradients)
    np.testing.assert_allclose(sums.sum(axis=0) + left.sum(axis=0), gradients.sum(axis=(0, 1)), atol=2e-5)
    assert np.abs(left).max() > 0


def test_int8__is_right_to_a_level_of_each_piece_and_top_k_sends_the_greatest() -> None:
    gradients = np.random.default_rng(4).normal(size=(1, 8, 100)).astype(np.float32)
    exact = gradients[0].sum(axis=0)
    sums, _ = rounds_of(WAYS[0], gradients)
    assert np.abs(sums[0] - exact).max() < 8 * np.abs(gradients).max() / 127 / 2 + np.abs(exact).max() / 127
    sums, left = rounds_of(WAYS[1], gradients)
    expected = np.zeros(100)
    for gradient in gradients[0]:
        chosen = np.argsort(-np.abs(gradient))[:10]
        expected[chosen] += gradient[chosen]
    np.testing.assert_allclose(sums[0], expected, atol=1e-6)
    assert (left == 0).sum() == 80


@pytest.mark.soak
def test_training__comes_as_far_by_fewer_bytes() -> None:
    batches = [batch(128, number) for number in range(30)] * 2
    plain = task((64, 32), learning_rate=0.5)
    losses = on_one_device(plain, batches)[1]
    start = initial(plain.network.shape, 3, [np.arange(CODES + 1)])
    whole = MeshSteps(plain, neural_devices("cpu", 4)).cost(start, batches[0])["bytes_sent"] or 0.0
    for way, most in zip(WAYS, (0.3, 0.41), strict=True):
        told = task((64, 32), learning_rate=0.5, compression=way)
        steps = MeshSteps(told, neural_devices("cpu", 4))
        _, found = trained(steps, told, batches)
        assert np.mean(found[-30:]) == pytest.approx(np.mean(losses[-30:]), rel=0.1)
        assert 0 < steps.bytes_sent(steps.begun(start), batches[0]) < most * whole
