"""Memory of split backward passes: what waits for the weights' half, by hand.

With 2 samples a microbatch an activation of `layered` has X = 2 x 4 x 64 float32 = 2048 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from meshwright.schema import Pipeline, Plan, Request, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.requests import planned, refused, toy_request
from tests.solver.small_graphs import topology

X = 2 * 4 * 64 * 4


def asked(kind: str, cut: str, memory_bytes: int = 1 << 34, sizes: Sequence[int] = (2,)) -> Request:
    return toy_request(
        graph=layered(2),
        topology=topology(*sizes, memory_bytes=memory_bytes),
        setup=Setup(microbatches=4, memory_reserve=0.0),
        pipeline=Pipeline.model_validate({"ranks": 2, "schedule": kind, "cuts": (cut,)}),
    )


def held(found: Plan) -> list[float]:
    return [
        own.memory_bytes.activations / X for own in found.stages if own.memory_bytes is not None
    ]


def test_inputs_of_products_and_gradients_of_what_they_make_wait() -> None:
    """Stage 0: embedding, product, gelu, sum. It saves the inputs of product and gelu, 2 X. For the
    weights' half wait the product's input, the gradients of its result and of the embedding's, 3 X.
    Rank 0 runs F0 F1 I0 W0: the most it holds, after I0, is 2 X and 3 X.

    Stage 1: product, gelu, sum, classifier (X / 2), loss. It saves inputs of product, gelu,
    classifier and loss, 3.5 X; of two products wait inputs and gradients, 3.5 X. Rank 1 runs
    F0 I0 F1 I1 W0 and holds two of these after I1.
    """
    found = planned(asked("zb_h1", "1.linear"))
    assert held(found) == [5.0, 7.0]
    assert found.cost.memory_bytes.activations == 7 * X
    assert held(planned(asked("1f1b", "1.linear"))) == [4.0, 3.5]


def test_a_split_pass_may_need_more_than_a_whole_one() -> None:
    """Stage 0 has two layers: it saves 4 X and 5 X wait; two microbatches of one kind are 8 X, one
    of each 9 X. 10,240 parameters have value, gradient and two states of 4 bytes. When the weights'
    half begins there are these 9 X, the gradient of 64 x 64 weights, 8 X, and X comes in."""
    states = (32 * 64 + 2 * 64 * 64) * 16
    assert held(planned(asked("1f1b", "logits", states + 18 * X)))[0] == 8.0
    # the search for a stage counts its backward pass whole, X more
    for room, fits in ((19 * X, True), (18 * X - 1, False)):
        request = asked("zb_h1", "logits", states + room)
        if fits:
            assert planned(request).cost.memory_bytes.total == states + 18 * X
        else:
            why = refused(request)
            assert why.constraint == "memory"
            assert why.needed_bytes is not None
            assert why.needed_bytes >= states + 18 * X
            said = "no configuration found fits; closest: zb_h1, 2 pipeline ranks, 4 microbatches"
            assert why.detail.startswith(said)


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.97])
def test_no_plan_takes_more_than_there_is(share: float) -> None:
    """Stages on two devices each can be sharded more where what waits does not fit."""
    free = planned(asked("zb_h1", "logits", sizes=(2, 2))).cost.memory_bytes.total
    found = plan(asked("zb_h1", "logits", int(share * free), (2, 2)))
    if found.plan is None:
        assert found.infeasible is not None
        assert found.infeasible.constraint == "memory"
    else:
        assert found.plan.cost.memory_bytes.total <= int(share * free)
