from __future__ import annotations

import numpy as np
import pytest

from bench.closed_form.memory import memory
from bench.closed_form.runs import FULL, PRODUCTS, SELECTIVE
from tests.bench.closed_form.runs_of_tests import EAGER, a_run

GB = 1e9
SBH = 1024 * 4096


def layer_bytes(**changed: float) -> float:
    """Activations of one layer of the run."""
    return float(memory(a_run(layers=1, dense_layers=1, **changed)).activations[0])


@pytest.mark.parametrize(("stage", "published_gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_states_are_those_of_zero_s_figure_1(stage: int, published_gb: float):
    # Rajbhandari et al. 2020 (arXiv:1910.02054), figure 1: 7.5e9 parameters on 64 ranks, 16 bytes
    hidden, layers = 4096.0, 36
    ffn = (7.5e9 / layers / hidden - 4 * hidden) / 2
    run = a_run(
        layers=layers, dense_layers=layers, hidden=hidden, ffn=ffn, vocabulary=0, dp=64,
        zero=stage, sharded=64, batch=64, stack=EAGER,
    )  # fmt: skip
    assert memory(run).states[0] / GB == pytest.approx(published_gb, rel=0.005)


def test_activations_are_those_of_korthikanti():
    # arXiv:2205.05198, equations 1, 2 and 4 and table 2; a s / h is 32 * 1024 / 4096 = 8
    plain = {"stack": EAGER, "flash": 0}
    assert layer_bytes(**plain) == pytest.approx(SBH * (34 + 5 * 8))
    split = {**plain, "tp": 8}
    assert layer_bytes(**split) == pytest.approx(SBH * (8 + (26 + 5 * 8) / 8), rel=0.06)
    whole = {**split, "sequence_parallel": 1, "recompute": SELECTIVE}
    assert layer_bytes(**whole) == pytest.approx(SBH * 34 / 8)


def test_full_recomputation_keeps_inputs_and_one_layer():
    many = memory(a_run(layers=8, dense_layers=8, recompute=FULL)).activations[0]
    assert many == pytest.approx(8 * 2 * SBH + layer_bytes())


def test_every_second_product_again_keeps_less_than_nothing_again_and_more_than_all_again():
    kept = [layer_bytes(recompute=kind) - layer_bytes() for kind in (FULL, PRODUCTS)]
    assert 0 < kept[0] < kept[1] < layer_bytes() / 2


def test_the_first_rank_of_a_pipeline_has_most_in_flight():
    run = {"pp": 4, "batch": 16, "vocabulary": 1e-9}
    assert memory(a_run(**run)).activations == pytest.approx(4 * 2 * layer_bytes())
    assert memory(a_run(**{**run, "batch": 2})).activations == pytest.approx(2 * 2 * layer_bytes())


def test_eight_bit_products_save_their_inputs_in_eight_bits():
    # of 32 bytes a number without dropout masks, 2 + 2 + 2 + 8 are inputs of products
    assert layer_bytes() == pytest.approx(SBH * 32)
    assert layer_bytes(eight_bit=1) == pytest.approx(SBH * 25)


def test_experts_count_for_what_a_device_holds():
    experts = {"experts": 8, "top_k": 2, "expert_ffn": 1024, "dense_layers": 0, "dp": 8}
    held = [memory(a_run(**experts, ep=ep)).states[0] for ep in (1, 8)]
    bytes_a_parameter = 2 + 4 + 12
    expected = 7 * 8 * 3 * 4096 * 1024 * bytes_a_parameter  # 7 of 8 experts, 8 layers
    assert held[0] - held[1] == pytest.approx(expected)
    assert np.all(np.diff(held) < 0)


def test_single_precision_has_no_master_copy_and_saves_twice_the_bytes():
    plain, single = (
        memory(a_run(number_bytes=own, gradient_bytes=4)) for own in (2, 4)
    )  # weights, gradients, moments: 4 + 4 + 8 bytes in place of 2 + 4 + 12
    assert single.states / plain.states == pytest.approx(16 / 18)
    assert single.activations == pytest.approx(2 * plain.activations)


def test_eight_bit_weights_are_kept_twice_beside_the_others():
    plain, eight = (memory(a_run(eight_bit=own)).states for own in (0, 1))
    assert eight / plain == pytest.approx(20 / 18)


def test_the_third_zero_stage_gathers_a_layer_ahead():
    # 12 * 4096^2 parameters of 2 bytes: of two layers, and one layer's gradient
    layer = 12 * 4096**2 * 2
    run = {"zero": 3, "dp": 8, "sharded": 8, "batch": 8}
    assert memory(a_run(**run)).gathered == pytest.approx(3 * layer)
    assert memory(a_run(**run, per_tensor=1)).gathered == pytest.approx(2 / 3 * layer)
    assert memory(a_run(zero=3)).gathered == 0
    assert memory(a_run(**{**run, "zero": 2})).gathered == 0


def test_a_device_shows_more_as_used_than_is_needed_but_not_more_than_it_has():
    roomy, tight = (memory(a_run(memory_bytes=own * 2**30)) for own in (200, 36))
    assert roomy.needed == tight.needed
    assert tight.needed < 36 * 2**30
    assert roomy.used > 36 * 2**30
    assert tight.used == 36 * 2**30
    small = memory(a_run(memory_bytes=2**30))
    assert small.used == small.needed
