"""What a step sends, read off the compiled program, and how long its pieces take."""

from __future__ import annotations

import time

import pytest

from pipeline.neural.traffic import bytes_sent, step_times

pytestmark = pytest.mark.long  # JAX compiles its programs

LINES = {
    "%a = (f32[], f32[40,64]{1,0}) all-reduce(%x, %y), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}, to_apply=%add": 8
    * 6
    * 4
    * 2561
    // 4,
    "%a = f32[16,1]{1,0} all-reduce(%x), channel_id=2, replica_groups=[4,2]<=[8], to_apply=%add.clone": 8 * 64,
    "%a = f32[8,100]{1,0} all-gather(%x), replica_groups=[1,8]<=[8], dimensions={0}": 8 * 7 * 400,
    "%a = s8[8,100]{1,0} all-to-all(%x), replica_groups=[1,8]<=[8], dimensions={0}": 8 * 7 * 100,
    "%a = bf16[100]{0} reduce-scatter(%x), replica_groups=[1,8]<=[8], dimensions={0}": 8 * 7 * 200,
    "%a = f32[10]{0} collective-permute(%x), source_target_pairs={{0,1},{1,2}}": 80,
    "%a = f32[10]{0} fusion(%all-reduce.1), kind=kLoop": 0,
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("(%")[0].split()[-1])
def test_bytes_sent__are_those_of_rings(line: str) -> None:
    assert bytes_sent(f"ENTRY main\n  {line}\n", 8) == LINES[line]


def test_step_times__take_the_median_and_split_it() -> None:
    found = step_times(lambda: time.sleep(0.006), lambda: time.sleep(0.002))
    assert found["step_ms"] > found["compute_ms"] > 1.9
    assert found["step_ms"] == pytest.approx(found["compute_ms"] + found["communication_ms"])
    turned = step_times(lambda: None, lambda: time.sleep(0.001))
    assert turned["communication_ms"] == 0
    assert turned["compute_ms"] == turned["step_ms"]
