from __future__ import annotations

import math

import pytest

from meshwright.agent.tasks import KernelTask, collectives, groups, kernels


def test_work_is_counted_by_hand():
    product = KernelTask("matmul", "float32", (2, 3, 4))
    assert (product.flops, product.bytes_moved(4)) == (2 * 24, 4 * (8 + 12 + 6))
    # causal: half of two products of 2 heads x 8 x 8 x 4; queries, keys, values and results
    attention = KernelTask("attention", "bfloat16", (1, 2, 8, 4, 1))
    assert (attention.flops, attention.bytes_moved(2)) == (2 * 2 * 8 * 8 * 4, 4 * 2 * 2 * 8 * 4)
    assert KernelTask("memory", "float32", (10,)).bytes_moved(4) == 80


def test_no_kernel_is_larger_than_asked():
    for own in kernels(("float32",), largest=512):
        if own.kind == "matmul":
            assert max(own.shape) <= 1024
        if own.kind == "memory":
            assert own.shape[0] <= 2 * 512**2


def test_cards_measure_memory_far_beyond_their_caches():
    most = max(own.shape[0] for own in kernels(("float32",), largest=8192) if own.kind == "memory")
    assert most == 2**27  # 1 GiB of traffic in float32; an H100 has 50 MB of cache


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ((1, 2), [(1, 2)]),
        ((1, 8), [(1, 2), (1, 8)]),
        ((4, 8), [(2, 1), (4, 1), (1, 2), (1, 8), (4, 8)]),
        ((1, 1), []),
        ((1, 3), [(1, 3)]),
    ],
)
def test_groups_run_along_levels_and_over_all(
    levels: tuple[int, ...], expected: list[tuple[int, ...]]
):
    assert groups(levels) == expected


def test_messages_are_sent_between_two():
    for own in collectives((2, 4), largest_bytes=2**14):
        assert own.payload_bytes <= 2**14
        assert own.kind != "send" or math.prod(own.extents) == 2


def test_every_task_has_a_name_of_its_own():
    tasks = [
        *kernels(("float32", "bfloat16"), largest=4096),
        *collectives((2, 8), largest_bytes=2**28),
    ]
    assert len({own.key for own in tasks}) == len(tasks)
