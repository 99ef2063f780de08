from __future__ import annotations

import numpy as np
import pytest

from bench.closed_form.runs import FULL, PRODUCTS, SELECTIVE
from bench.closed_form.step import TERMS, steps
from tests.bench.closed_form.runs_of_tests import EAGER, MEGATRON, OTHER, PRIORS, a_run

ALL = frozenset(TERMS)


def seconds(*, without: frozenset[str] = frozenset(), **changed: float) -> float:
    return float(steps(a_run(**changed), PRIORS, without).total[0])


def test_what_is_left_without_all_terms_is_arithmetic():
    # 6 FLOP a parameter and token at 0.78 of peak: 8 layers of 12 h^2 and the logits;
    # what their loss reads and writes: 24 bytes a logit at 0.8 of 1 TB/s
    tokens, hidden, words = 4 * 1024, 4096, 50_000
    parameters = 8 * 12 * hidden**2 + hidden * words
    arithmetic = 6 * parameters * tokens / (0.78 * 1e14)
    loss = 24 * tokens * words / (0.8 * 1e12)
    assert seconds(without=ALL) == pytest.approx(arithmetic + loss)


def test_every_term_makes_a_step_longer():
    everything = {
        "tp": 2, "pp": 2, "dp": 4, "cp": 2, "ep": 4, "sequence": 4096, "batch": 64,
        "experts": 8, "top_k": 2, "expert_ffn": 8192, "dense_layers": 4, "recompute": FULL,
        "sharded": 8, "stack": EAGER,
    }  # fmt: skip
    for term in TERMS:
        run = {**everything, "zero": 3 if term == "sharded_parameters" else 1}
        assert seconds(**run, without=frozenset({term})) < seconds(**run), term


@pytest.mark.parametrize("stages", [1, 2])
def test_the_bubble_of_equal_stages_is_its_closed_form(stages: int):
    run = {"pp": 4, "batch": 16, "vocabulary": 1e-9, "stages_per_rank": stages}
    only = ALL - {"bubble"}
    with_bubble, ideal = seconds(**run, without=only), seconds(**run, without=ALL)
    fill = 2 * 3 * 2 * (2 * 1024 * 4096 / (0.78 * 3e11) + 1.4e-5)
    assert (with_bubble - ideal) / (ideal - fill) == pytest.approx(3 / stages / 16, rel=1e-3)


def test_full_recomputation_repeats_the_forward_pass():
    plain, again = steps(a_run(), PRIORS), steps(a_run(recompute=FULL), PRIORS)
    assert again.backward - plain.backward == pytest.approx(plain.forward)


def test_selective_recomputation_repeats_attention_only():
    plain, some = seconds(), seconds(recompute=SELECTIVE)
    assert plain < some < seconds(recompute=FULL)
    core = frozenset({"attention"})
    assert seconds(without=core) == pytest.approx(seconds(recompute=SELECTIVE, without=core))


def test_a_pass_is_never_shorter_than_its_launches():
    tiny = steps(a_run(hidden=64, ffn=256, heads=1, head_dim=64, stack=EAGER), PRIORS)
    assert tiny.forward == pytest.approx(PRIORS["launch.eager"], rel=0.01)
    large = a_run(stack=EAGER)
    assert steps(large, PRIORS).forward == pytest.approx(
        steps(large, PRIORS, frozenset({"launch"})).forward, rel=0.02
    )


def test_a_second_zero_stage_reduces_gradients_in_every_microbatch():
    run = {"dp": 4, "sharded": 4, "stack": OTHER}
    spent = [seconds(**run, batch=4 * each, zero=2) - seconds(**run, batch=4 * each, zero=1)
             for each in (1, 2, 5)]  # fmt: skip
    assert spent[0] == pytest.approx(0, abs=1e-9)
    assert spent[1] > 0
    assert spent[2] == pytest.approx(4 * spent[1])


def test_a_pipeline_reduces_gradients_once():
    run = {"dp": 4, "pp": 2, "sharded": 4, "stack": OTHER, "batch": 64}
    assert seconds(**run, zero=2) == seconds(**run, zero=1)


def test_every_second_product_again_is_half_of_the_products_and_what_is_element_wise():
    plain, again = steps(a_run(), PRIORS), steps(a_run(recompute=PRODUCTS), PRIORS)
    bare = steps(a_run(), PRIORS, ALL - {"matmul_traffic"})
    moved = steps(a_run(), PRIORS, ALL - {"matmul_traffic", "elementwise"})
    more = bare.forward / 2 + (moved.forward - bare.forward)
    assert again.backward - plain.backward == pytest.approx(more)


def test_single_precision_moves_twice_the_bytes():
    only = ALL - {"elementwise"}
    plain = seconds(without=only) - seconds(without=ALL)
    assert seconds(number_bytes=4, without=only) - seconds(number_bytes=4, without=ALL) == (
        pytest.approx(2 * plain)
    )


def test_a_state_space_in_place_of_attention_does_its_own_products():
    # 8 layers of 2 * 1,024 * 4,096 * (10,000 + 5,000) FLOP forward and twice that backward, in
    # place of 4 * 4,096^2; four microbatches
    run = {"attention_layers": 0, "state_layers": 8, "state_width": 10_000, "state_inner": 5_000}
    more = 8 * 4 * 3 * 2 * 1024 * 4096 * (15_000 - 4 * 4096) / (0.78 * 1e14)
    assert seconds(**run, without=ALL) - seconds(without=ALL) == pytest.approx(more)


def test_a_window_saves_fused_attention_only():
    only = ALL - {"attention"}

    def core(**changed: float) -> float:
        return seconds(**changed, without=only) - seconds(**changed, without=ALL)

    assert core(attended=0.25) == pytest.approx(core() / 4)
    assert core(attended=0.25, flash=0) == pytest.approx(core(flash=0))


def test_a_rank_s_share_of_a_batch_takes_as_long_on_more_ranks():
    free = ALL - {"attention", "elementwise", "matmul_traffic"}
    assert seconds(dp=8, batch=32, without=free) == pytest.approx(seconds(without=free))


def test_sharding_over_a_node_gathers_faster_than_over_a_thousand_ranks():
    run = {"dp": 1024, "batch": 1024, "zero": 1}
    assert seconds(**run, sharded=8) < seconds(**run, sharded=1024)


def test_experts_pay_for_their_own_products_and_exchange():
    experts = {"experts": 8, "top_k": 2, "expert_ffn": 16384, "dense_layers": 0, "dp": 8}
    near = {**experts, "batch": 32, "ep": 8}
    assert seconds(**near) > seconds(**near, without=frozenset({"expert_parallel"}))
    assert seconds(**near, per_node=4) > seconds(**near)


def test_a_device_s_only_expert_is_a_plain_product():
    experts = {"top_k": 1, "expert_ffn": 16384, "dense_layers": 0, "dp": 4, "ep": 4}
    # 8 layers, 6 FLOP a parameter and token, three matrices of an expert, one sequence a device
    plain = 8 * 6 * 3 * 4096 * 16384 * 1024 / (0.78 * 1e14)
    alone = seconds(without=ALL, ffn=1e-9, **{**experts, "experts": 0, "dense_layers": 8})
    grouped = PRIORS["expert_matmul"]
    for held, share in ((1, 1.0), (2, grouped), (16, grouped)):
        spent = seconds(without=ALL, ffn=1e-9, experts=4 * held, **experts) - alone
        assert spent == pytest.approx(plain / share), held


def test_every_expert_of_a_device_is_started_and_cast():
    experts = {"experts": 8, "top_k": 1, "expert_ffn": 16384, "dense_layers": 0, "dp": 8}
    only = ALL - {"routing"}
    spent = [
        seconds(**run, without=only) - seconds(**run, without=ALL)
        for run in (experts, {**experts, "ep": 8}, {**experts, "eight_bit": 1})
    ]
    # 8 layers, a forward and a backward pass over one microbatch
    each = 8 * 2 * PRIORS["expert_start"]
    assert spent[0] - spent[1] == pytest.approx(7 * each)
    assert spent[2] - spent[0] == pytest.approx(8 * each)


def test_rows_do_not_influence_each_other():
    together = steps(a_run(tp=[1, 2, 4], stack=[EAGER, MEGATRON, MEGATRON]), PRIORS).total
    alone = [seconds(tp=tp, stack=own) for tp, own in ((1, EAGER), (2, MEGATRON), (4, MEGATRON))]
    assert np.array_equal(together, alone)
