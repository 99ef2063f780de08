"""Ops of unknown kinds with a rule of their own are planned, executed and verified by it."""

import numpy as np
import pytest

from meshwright.schema import Pin, ShardingRule, parse_notation
from meshwright_solver.verification.execution.kernels import (
    KernelCall,
    OpaqueSignature,
    kernel_of,
    why_not_executable,
)
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology

RULES = [
    ("b u!, w! -> b v!", [(4, 3), (5,)], [(4, 6)]),
    ("b s u!, b w! -> b s", [(4, 2, 3), (4, 5)], [(4, 2)]),
    ("(b r!) u! -> b r! v!, b", [(8, 3)], [(4, 2, 5), (4,)]),
    ("u! b, 1 b -> b v!", [(3, 4), (1, 4)], [(4, 2)]),
]


def call_of(notation, inputs, outputs):
    rule = ShardingRule(notation=notation)
    sizes = rule.bind([x.shape for x in inputs], outputs)
    signature = OpaqueSignature(rule.parsed, sizes, ("float64",) * len(outputs))
    return KernelCall("mylib.op.default", {}, tuple(inputs), tuple(outputs), signature=signature)


@pytest.mark.parametrize(("notation", "inputs", "outputs"), RULES)
def test_the_stand_in_has_the_gradient_of_its_values(notation, inputs, outputs):
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape) for shape in inputs]
    kernel = kernel_of("mylib.op.default")
    values = kernel.forward(call_of(notation, arrays, outputs))
    sent = [generator.standard_normal(value.shape) for value in values]
    gradients = kernel.backward(call_of(notation, arrays, outputs), values, sent)
    steps = [generator.standard_normal(shape) for shape in inputs]

    def loss(scale):
        moved = [x + scale * step for x, step in zip(arrays, steps, strict=True)]
        made = kernel.forward(call_of(notation, moved, outputs))
        return sum((g * y).sum() for g, y in zip(sent, made, strict=True))

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    assert slope == pytest.approx(
        sum((g * s).sum() for g, s in zip(gradients, steps, strict=True)), rel=1e-6
    )


def test_every_element_depends_on_all_of_its_sample_and_on_no_other():
    generator = np.random.default_rng(1)
    arrays = [generator.standard_normal((4, 3)), generator.standard_normal(5)]
    kernel = kernel_of("mylib.op.default")
    call = call_of("b u!, w! -> b v!", arrays, [(4, 6)])
    (before,) = kernel.forward(call)
    for element in np.ndindex(4, 3):
        changed = arrays[0].copy()
        changed[element] += 1
        (after,) = kernel.forward(call_of("b u!, w! -> b v!", [changed, arrays[1]], [(4, 6)]))
        differs = before != after
        assert differs[element[0]].all()
        assert not np.delete(differs, element[0], axis=0).any()


def test_the_stand_in_refuses_rules_that_communicate():
    assert not why_not_executable(parse_notation("b u! -> b v!"))
    for notation in ("b k, n k -> b n", "b u^ -> b u", "b t~ -> b t", "(a|b) -> a, b"):
        assert why_not_executable(parse_notation(notation)), notation


@pytest.mark.parametrize("axes", [("gpu",), ("node",), ("node", "gpu")])
def test_a_plan_shards_the_op_by_its_rule_and_is_verified(axes):
    make = GraphMaker(batch=8)
    x = make.input("x", "batch", 16)
    x = make.op("linear", [x, make.parameter("w1", 16, 16)], ["batch", 16], "first")
    rule = {"notation": "b u!, w! -> b v!", "flops": 0}
    x = make.op(
        "mylib.op.default", [x, make.parameter("scale", 16)], ["batch", 24], "own", rule=rule
    )
    x = make.op("linear", [x, make.parameter("w2", 16, 24)], ["batch", 16], "second")
    loss = make.op("mean", [x], [], "loss", attrs={"dims": [0, 1], "keepdim": False})
    graph = make.graph(loss, loss=loss)
    devices = topology(2, 2)
    pins = (Pin(op="own", strategy={"b": axes}),)
    request = toy_request(graph=graph, topology=devices, pins=pins)
    plan = planned(request)
    (own,) = [op for op in plan.stages[0].ops if op.op == "own"]
    assert own.strategy["b"] == axes
    certificate = verify_documents(plan, graph, devices, request.setup)
    assert certificate.outcome == "verified", certificate.detail
    assert (
        certificate.detail == "mylib.op.default ran as a stand-in with the dependences of its rule"
    )
    assert certificate.gradients > 0
