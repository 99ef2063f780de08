"""What an answer without a plan says: by how much, of what, and which pins are in the way."""

from __future__ import annotations

from meshwright.schema import Infeasible, Pin, Request, Setup, Topology
from meshwright_solver.planning.planner import plan
from tests.solver.requests import mlp_request, refused, toy_request
from tests.solver.small_graphs import GraphMaker, topology


def with_memory(request: Request, memory_bytes: int) -> Request:
    device = request.topology.device.model_copy(update={"memory_bytes": memory_bytes})
    cluster: Topology = request.topology.model_copy(update={"device": device})
    setup = request.setup.model_copy(update={"memory_reserve": 0.0, "microbatches": 1})
    return request.model_copy(update={"topology": cluster, "setup": setup})


def roomy() -> Request:
    return mlp_request(512, topology(2, 4), rows=64, width=512)


def least(request: Request) -> Infeasible:
    found = refused(with_memory(request, 2**24))
    assert found.constraint == "memory"
    return found


def test_what_is_needed_is_the_sum_of_its_kinds_and_the_closest_plan_s_need_is_enough() -> None:
    found = least(roomy())
    assert found.needed_bytes is not None
    assert found.least is not None
    total = found.least.total - found.least.reserved
    assert abs(total - found.needed_bytes) <= 4
    assert plan(with_memory(roomy(), found.needed_bytes - 1)).plan is None
    # more passes by than in every plan must: weights that are gathered
    closest = refused(with_memory(roomy(), found.needed_bytes + 1))
    assert closest.needed_bytes is not None
    assert "closest needs" in closest.detail
    assert "at its fullest moment (backward of loss)" in closest.detail
    enough = plan(with_memory(roomy(), closest.needed_bytes)).plan
    assert enough is not None
    assert enough.cost.memory_bytes.total <= closest.needed_bytes


def test_the_largest_consumers_are_named_in_order() -> None:
    found = least(roomy())
    sizes = [own.bytes for own in found.largest]
    assert sizes == sorted(sizes, reverse=True)
    names = {tensor.name for tensor in roomy().graph.tensors}
    assert {own.tensor for own in found.largest} <= names
    assert f"{(found.needed_bytes or 0) / 2**30:.1f} GiB" in found.detail


def test_pins_that_together_need_too_much_are_named_and_each_is_needed_for_that() -> None:
    request = roomy()
    ops = [op.name for op in request.graph.ops]
    pins = tuple(Pin(op=name, strategy={}) for name in ops)
    needed = least(request).needed_bytes
    assert needed is not None
    small = with_memory(request, int(needed * 1.3))
    assert plan(small).plan is not None
    found = refused(small.model_copy(update={"pins": pins}))
    assert found.pins
    named = [pin for pin in pins if str(pin) in found.pins]
    assert len(named) == len(found.pins)
    assert plan(small.model_copy(update={"pins": tuple(named)})).plan is None
    for pin in named:
        others = tuple(own for own in named if own is not pin)
        assert plan(small.model_copy(update={"pins": others})).plan is not None
    assert all(repr(name) in found.detail for name in found.pins)


def test_strategies_of_a_search_that_do_not_fit_are_not_called_a_proof() -> None:
    request = roomy()
    needed = least(request).needed_bytes
    assert needed is not None
    small = with_memory(request, needed + 1)
    found = plan(small.model_copy(update={"solver": "semi_auto"}))
    assert found.plan is not None or (
        found.infeasible is not None and "every plan" not in found.infeasible.detail
    )


def test_states_that_fit_nowhere_are_refused_at_once_with_the_devices_that_would_do():
    # 35 M parameters: bf16 value 2 bytes, gradient 4, Adam 8: 14 bytes each, without master copy
    answer = refused(mlp_request(4, topology(2, memory_bytes=1 << 20)))
    assert answer.constraint == "memory"
    assert answer.needed_bytes is not None
    assert answer.available_bytes == int((1 << 20) * 0.9)
    assert "GiB" in answer.detail
    assert "devices" in answer.detail


def test_activations_that_never_fit_name_memory_and_how_far_off():
    request = mlp_request(1, topology(2, memory_bytes=400_000), rows=2048, width=8)
    answer = refused(request.model_copy(update={"setup": Setup(microbatches=1)}))
    assert answer.constraint == "memory"
    assert answer.needed_bytes is not None
    assert answer.available_bytes == 360_000
    assert answer.needed_bytes > 360_000
    assert f"{answer.needed_bytes / 360_000:.2f} times" in answer.detail


def test_a_pin_that_sizes_cannot_keep_names_the_length() -> None:
    request = mlp_request(12, topology(2, 8), rows=9)
    found = refused(request.model_copy(update={"pins": (Pin(op="up", strategy={"b1": ("gpu",)}),)}))
    assert found.constraint == "pins"
    assert "'b1' has length 9, not to be cut by 8" in found.detail
    assert "uneven" in found.detail  # in chunks of 2 it can be
    short = mlp_request(12, topology(2, 8), rows=3)
    found = refused(short.model_copy(update={"pins": (Pin(op="up", strategy={"b1": ("gpu",)}),)}))
    assert "'b1' has length 3, not to be cut by 8" in found.detail
    assert "uneven" not in found.detail


def test_the_bound_of_states_alone_counts_the_master_copy() -> None:
    """Of 2^24 elements in bfloat16: 2 bytes of value, 4 of gradient, 8 of Adam's states, and 4 of
    the master copy in float32 where there is one: 18 or 14 bytes, on two devices half of them."""
    maker = GraphMaker("bfloat16", batch=2)
    x, weight = maker.input("x", "batch", 4096), maker.parameter("w", 4096, 4096)
    x = maker.op("linear", [x, weight], ["batch", 4096], "product")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [x, label], [], "loss")
    request = toy_request(
        graph=maker.graph(loss, loss=loss), topology=topology(2, memory_bytes=2**20)
    )
    bare = request.model_copy(update={"setup": Setup(master_dtype=None)})
    for own, element_bytes in ((request, 18), (bare, 14)):
        found = refused(own)
        assert found.needed_bytes == element_bytes * 2**24 // 2
        assert "with the master copy where there is one" in found.detail
