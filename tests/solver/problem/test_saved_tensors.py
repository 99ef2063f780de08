"""What is kept for the backward pass, by a stack that fuses and by one that does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from meshwright.schema import Budget, Setup
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology

B, H, F = 4, 8, 16


def kept(found: Problem) -> set[str]:
    return {v.root for v in find_values(found).values if v.kept.wanted and not v.is_parameter}


def both(maker: GraphMaker, *outputs: str, **setup) -> tuple[set[str], set[str]]:
    """What an eager stack keeps, and a compiled one, recorded or not."""
    graph = maker.graph(*outputs)
    eager, compiled, recorded = (
        kept(problem(graph, topology(2), Setup(execution=execution, **setup)))
        for execution in ("eager", "compiled", "graphs")
    )
    assert recorded == compiled
    return eager, compiled


def gated(maker: GraphMaker, x: str) -> str:
    gate = maker.op("linear", [x, maker.parameter("wg", F, H)], [B, F], "gate")
    up = maker.op("linear", [x, maker.parameter("wu", F, H)], [B, F], "up")
    act = maker.op("silu", [gate], [B, F], "act")
    wide = maker.op("mul", [act, up], [B, F], "wide")
    return maker.op("linear", [wide, maker.parameter("wd", H, F)], [B, H], "down")


def test_a_gated_layer_keeps_its_two_inputs_and_its_result_but_not_the_activation():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", B, H)], [B, H], "x")
    eager, compiled = both(maker, gated(maker, x))
    assert eager == {"x:out", "gate:out", "up:out", "act:out", "wide:out"}
    assert compiled == eager - {"act:out"}


def test_a_chain_is_made_again_from_where_it_begins():
    # tanh keeps its result, mul both factors; all from the result of the product, which silu keeps
    maker = GraphMaker()
    x = maker.op("linear", [maker.parameter("p", B, H), maker.parameter("w", F, H)], [B, F], "x")
    cube = maker.op("pow", [x], [B, F], "cube")
    tanh = maker.op("tanh", [cube], [B, F], "tanh")
    both_ = maker.op("mul", [tanh, x], [B, F], "both")
    out = maker.op("linear", [both_, maker.parameter("v", H, F)], [B, H], "out")
    eager, compiled = both(maker, out)
    assert eager == {"x:out", "tanh:out", "both:out"}
    assert compiled == {"x:out", "both:out"}


@pytest.mark.parametrize("after", ["linear", "softmax"])
def test_what_a_product_or_the_op_itself_wants_whole_is_kept(after):
    maker = GraphMaker()
    x = maker.op("linear", [maker.parameter("p", B, H), maker.parameter("w", F, H)], [B, F], "x")
    act = maker.op("gelu", [x], [B, F], "act")
    if after == "linear":
        out = maker.op("linear", [act, maker.parameter("v", H, F)], [B, H], "out")
    else:
        out = maker.op("softmax", [act], [B, F], "out", attrs={"dim": 1})
    eager, compiled = both(maker, out)
    assert compiled == eager
    assert (after == "linear") == ("act:out" in eager)


def test_what_is_not_at_hand_is_not_kept_instead():
    # relu keeps its result; what it is made of nobody else wants
    maker = GraphMaker()
    x = maker.op("linear", [maker.parameter("p", B, H), maker.parameter("w", F, H)], [B, F], "x")
    act = maker.op("relu", [x], [B, F], "act")
    eager, compiled = both(maker, maker.op("square", [act], [B, F], "out"))
    assert eager == compiled == {"act:out"}


def test_a_norm_that_only_element_wise_ops_read_is_made_again_from_its_input():
    maker = GraphMaker()
    x = maker.op("linear", [maker.parameter("p", B, H), maker.parameter("w", F, H)], [B, F], "x")
    inputs = [x, maker.parameter("scale", F), maker.parameter("shift", F)]
    norm = maker.op("layer_norm", inputs, [B, F], "norm")
    act = maker.op("gelu", [norm], [B, F], "act")
    eager, compiled = both(maker, maker.op("linear", [act, maker.parameter("v", H, F)], [B, H]))
    assert eager == {"x:out", "norm:out", "act:out"}
    assert compiled == {"x:out", "act:out"}


def test_dropout_is_not_drawn_twice():
    maker = GraphMaker()
    x = maker.op("linear", [maker.parameter("p", B, H), maker.parameter("w", F, H)], [B, F], "x")
    act = maker.op("gelu", [x], [B, F], "act")
    own, mask = maker.tensor("own", [B, F]), maker.tensor("mask", [B, F], dtype="bool")
    maker.ops.append(
        {"name": "drop", "kind": "dropout", "inputs": [act], "outputs": [own, mask],
         "attrs": {"p": 0.5}}
    )  # fmt: skip
    eager, compiled = both(maker, maker.op("square", [own], [B, F], "out"))
    assert eager == compiled == {"x:out", "own", "mask"}


def test_inference_keeps_nothing():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", B, H)], [B, H], "x")
    assert both(maker, gated(maker, x), phase="inference") == (set(), set())


KINDS = ("silu", "tanh", "exp", "neg", "mul", "add", "linear", "layer_norm")


def random_layers(seed: int) -> GraphMaker:
    """Ops of a dozen kinds on values picked at random."""
    random = np.random.default_rng(seed)
    maker = GraphMaker()
    made = [maker.op("gelu", [maker.parameter("p", B, H)], [B, H], "x")]
    for number in range(10):
        kind = str(random.choice(KINDS))
        inputs = [str(own) for own in random.choice(made, 2 if kind in ("mul", "add") else 1)]
        if kind == "linear":
            inputs.append(maker.parameter(f"w{number}", H, H))
        if kind == "layer_norm":
            inputs += [maker.parameter(f"{end}{number}", H) for end in ("scale", "shift")]
        made.append(maker.op(kind, inputs, [B, H], f"{kind}{number}"))
    maker.op("linear", [made[-1], maker.parameter("head", H, H)], [B, H], "last")
    return maker


def wanted_by(found: Problem) -> Iterator[tuple[str, str]]:
    """Kind of an op and a value that its gradient wants, as rules say."""
    for position, op in enumerate(found.ops):
        for k in find_values(found).saved_inputs[position]:
            yield op.op.kind, op.inputs[k].tensor
        for k in op.known.rule.saves_outputs if op.known is not None else ():
            if found.tensors[op.outputs[k].tensor].has_gradient:
                yield op.op.kind, op.outputs[k].tensor


def remakable(found: Problem, at_hand: set[str], tensor: str) -> bool:
    """Whether a value can be made, by element-wise ops and norms alone, of those at hand."""
    if tensor in at_hand or found.tensors[tensor].tensor.role == "parameter":
        return True
    op = next(own for own in found.ops if tensor in [port.tensor for port in own.outputs])
    if op.op.kind == "linear":
        return False
    return all(remakable(found, at_hand, port.tensor) for port in op.inputs)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(60))
def test_all_that_gradients_want_can_be_made_again_and_nothing_more_can_be_left_out(seed):
    maker = random_layers(seed)
    graph = maker.graph("last:out")
    eager, compiled = (
        problem(graph, topology(2), Setup(execution=execution))
        for execution in ("eager", "compiled")
    )
    activations = {op.outputs[0].tensor for op in eager.ops}
    pairs = {(kind, name) for kind, name in wanted_by(eager) if name in activations}
    left = kept(compiled)
    assert left <= kept(eager)
    for kind, name in pairs:
        assert name in left if kind == "linear" else remakable(eager, left, name)
    whole = {name for kind, name in pairs if kind == "linear"}
    assert not [name for name in left - whole if remakable(eager, left - {name}, name)]


def test_a_plan_of_either_stack_is_judged_and_verified_as_it_says():
    maker = GraphMaker()
    x = maker.op("linear", [maker.input("x0", B, H), maker.parameter("p", H, H)], [B, H], "x")
    loss = maker.op("mean", [gated(maker, x)], [], "loss", attrs={"dims": [0, 1]})
    graph = maker.graph(loss, loss=loss)
    held = {}
    for execution in ("eager", "compiled"):
        setup, devices = Setup(microbatches=1, execution=execution), topology(2)
        plan = planned(
            toy_request(graph=graph, topology=devices, setup=setup, budget=Budget(max_axes=1))
        )
        held[execution] = plan.cost.memory_bytes.activations
        saved = {t.tensor for t in plan.stages[0].tensors if t.saved != "none"}
        assert ("act:out" in saved) == (execution == "eager")
        certificate = verify_documents(plan, graph, devices, setup)
        assert certificate.outcome == "verified", certificate
    assert held["eager"] > held["compiled"]
