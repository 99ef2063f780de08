"""Parameters at rest: the memory of ZeRO's stages, and what their traffic costs."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Setup
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.parameter_model import OPTIMIZER_SHARD_BYTES, ParameterModel
from tests.solver.small_graphs import GraphMaker, models

# Psi parameters in bf16, gradients in bf16, Adam in fp32 with an fp32 copy: the K = 12 of ZeRO
MIXED = Setup(gradient_dtype="bfloat16", master_dtype="float32", microbatches=1)
PSI = 256 * 512


def parameter(
    *axis_sizes: int, setup: Setup = MIXED, shape: tuple[int, int] = (512, 256), **fields
) -> ParameterModel:
    """The weight of a linear layer on axes that its activations can be split over."""
    maker = GraphMaker("bfloat16", batch=64)
    x = maker.input("x", "batch", shape[1])
    w = maker.parameter("w", *shape, **fields)
    bias = maker.parameter("u", shape[0])
    y = maker.op("linear", [x, w], ["batch", shape[0]], "y")
    y = maker.op("add", [y, bias], ["batch", shape[0]], "z")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [y, label], [], "loss")
    found: Models = models(maker.graph(loss, loss=loss), axis_sizes, setup)
    return found.parameter(found.values.value_of["w"])


def codes(model: ParameterModel) -> dict[str, int]:
    n = model.space.slots
    return {"ZeRO-3": 0, "replicated": n, "ZeRO-1": n + 1, "ZeRO-2": n + 2}


def held(model: ParameterModel, name: str) -> tuple[float, float, float]:
    axes = len(model.space.axis_sizes)
    value, gradient, optimizer = model.memory_bytes(np.array([[codes(model)[name]] * axes]))
    return value[0], gradient[0], optimizer[0]


@pytest.mark.parametrize("axes", [(2,), (8,), (2, 4), (4, 2, 2)])
def test_memory_is_that_of_the_table_in_the_zero_paper(axes):
    # paper: ZeRO (Rajbhandari et al. 2020), figure 1: 2 Psi + 2 Psi + K Psi, K = 12
    model, devices = parameter(*axes), int(np.prod(axes))
    assert held(model, "replicated") == (2 * PSI, 2 * PSI, 12 * PSI)
    assert held(model, "ZeRO-1") == (2 * PSI, 2 * PSI, 12 * PSI / devices)
    assert held(model, "ZeRO-2") == (2 * PSI, 2 * PSI / devices, 12 * PSI / devices)
    assert held(model, "ZeRO-3") == (2 * PSI / devices, 2 * PSI / devices, 12 * PSI / devices)


@pytest.mark.parametrize(
    ("setup", "bytes_per_element"),
    [
        (Setup(master_dtype=None), 8),  # two fp32 moments
        (Setup(master_dtype="bfloat16"), 8),  # the parameter itself is bf16: no copy
        (Setup(master_dtype="float32"), 12),
        (Setup(optimizer={"name": "sgd", "states": 0}, master_dtype=None), 0),
        (Setup(optimizer={"states": 1, "state_dtype": "bfloat16"}, master_dtype="float32"), 6),
    ],
)
def test_the_optimizer_keeps_its_states_and_a_copy_of_another_dtype(setup, bytes_per_element):
    assert parameter(2, setup=setup).optimizer_element_bytes == bytes_per_element


def test_states_refine_from_value_to_gradient_to_optimizer_state():
    model = parameter(2, 4, setup=MIXED.model_copy(update={"microbatches": 4}))
    value = model.space.local_bytes(model.value(model.states))
    gradient = model.space.local_bytes(model.gradient(model.states))
    optimizer = model.space.local_bytes(model.optimizer(model.states))
    assert (value >= gradient).all()
    assert (gradient >= optimizer).all()
    names = codes(model)
    assert {names["ZeRO-1"], names["ZeRO-2"]} <= set(model.states.reshape(-1).tolist())


def test_with_one_microbatch_zero_1_is_left_out():
    model = parameter(2)
    assert codes(model)["ZeRO-1"] not in model.states
    assert codes(model)["ZeRO-2"] in model.states


def test_a_small_parameter_has_no_optimizer_sharding_and_a_frozen_one_no_states():
    # 128 x 64 bf16 are 16 KiB
    small = parameter(2, shape=(128, 64))
    assert small.space.bytes < OPTIMIZER_SHARD_BYTES
    assert small.states.max() == small.space.slots
    frozen = parameter(2, trainable=False)
    assert not frozen.trained
    assert frozen.states.max() == frozen.space.slots
    zero = np.zeros(len(frozen.states))
    value, gradient, optimizer = frozen.memory_bytes(frozen.states)
    assert value.max() == 2 * PSI
    np.testing.assert_array_equal(gradient, zero)
    np.testing.assert_array_equal(optimizer, zero)
    np.testing.assert_array_equal(frozen.update_ns(frozen.states), zero)
    np.testing.assert_array_equal(frozen.spread_ns(frozen.states), zero)


def test_a_slot_that_does_not_divide_is_not_sharded():
    # 512 and 256 over 3: nothing but replicated
    assert parameter(3).states.tolist() == [[parameter(3).space.slots]]


def traffic(model: ParameterModel, name: str) -> tuple[float, float, float, float]:
    """Of data parallelism on one axis: gather, per microbatch, per step, spread; in ns."""
    n = model.space.slots
    states, needed = np.array([[codes(model)[name]]]), np.array([[n + 2]])
    often, once = model.reduce_ns(states, needed)
    return (
        float(model.gather_ns(states, needed)[0, 0]),
        float(often[0, 0]),
        float(once[0, 0]),
        float(model.spread_ns(states)[0]),
    )


def test_traffic_of_data_parallelism_is_that_of_each_zero_stage():
    # every term is an all-gather of the value, a reduce-scatter or an all-reduce of the gradient,
    # all of the same 2 Psi bytes
    model = parameter(8, setup=MIXED.model_copy(update={"microbatches": 4}))
    gather, scatter, *_ = traffic(model, "ZeRO-3")
    assert gather > 0
    assert scatter == pytest.approx(gather)  # the same bytes over the same links
    reduce = 2 * scatter
    assert traffic(model, "replicated") == pytest.approx((0, 0, reduce, 0))
    assert traffic(model, "ZeRO-1") == pytest.approx((0, 0, scatter, gather))
    assert traffic(model, "ZeRO-2") == pytest.approx((0, scatter, 0, gather))
    assert traffic(model, "ZeRO-3") == pytest.approx((gather, scatter, 0, 0))


def test_a_reader_is_charged_for_every_microbatch_and_every_gather():
    model = parameter(8, setup=MIXED.model_copy(update={"microbatches": 4}))
    exposed = model.calibration.exposed
    n = model.space.slots
    needed = np.array([[n + 2]])
    for name in codes(model):
        gather, often, once, _ = traffic(model, name)
        found = model.read_ns(np.array([[codes(model)[name]]]), needed, gathers=2)[0, 0]
        expected = 4 * 2 * gather * exposed.parameter + (4 * often + once) * exposed.gradient
        assert found == pytest.approx(expected)


def test_tensor_parallel_shards_need_no_traffic_at_all():
    # read and kept split over the same slot
    model = parameter(8)
    for slot in range(model.space.slots):
        row = np.array([[slot]])
        assert model.read_ns(row, row, gathers=2)[0, 0] == 0
        assert model.spread_ns(row)[0] == 0


def test_the_update_reads_and_writes_states_and_master_copy():
    # 2 * 12 bytes of states, a bf16 gradient read, a bf16 value written, over all of the slot
    model = parameter(8)
    rate = model.device.memory_bytes_per_s * model.calibration.efficiency.memory
    whole = model.update_ns(np.array([[codes(model)["replicated"]]]))[0]
    assert whole == pytest.approx(PSI * (24 + 2 + 2) / rate * 1e9)
    shared = model.update_ns(np.array([[codes(model)["ZeRO-2"]]]))[0]
    assert shared == pytest.approx(whole / 8)


def test_optimizer_state_is_cut_where_most_devices_divide_it() -> None:
    maker = GraphMaker(batch=64)
    ids = maker.input("ids", "batch", dtype="int64")
    table = maker.parameter("table", 50257, 768)  # the rows of GPT-2's words divide by nothing
    rows = maker.op("embedding", [table, ids], ["batch", 768], "words")
    found = models(maker.graph(rows), [2, 4])
    model = found.parameter(found.values.value_of["table"])
    assert model.space.slot_sizes[model.optimizer_slot] == 768
    finest = model.updated_elements(model.states).min()
    assert finest == 50257 * 768 / 8
