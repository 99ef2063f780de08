"""What a stage holds at its fullest moments, by hand.

With 2 samples a microbatch an activation of `layered` has X = 2 x 4 x 64 float32 = 2048 bytes, a
layer's weights 64 x 64 of them, 8 X.
"""

from __future__ import annotations

from meshwright.schema import Moment, Pipeline, Plan, Setup
from tests.solver.layered import layered
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology

X = 2 * 4 * 64 * 4


def in_x(moment: Moment) -> dict[str, float]:
    parts = ("activations", "recomputed", "working", "gathered", "buffers")
    return {name: own / X for name in parts if (own := getattr(moment, name))}


def two_ranks(schedule: str) -> Plan:
    """Four microbatches on two ranks, one block on each."""
    return planned(
        toy_request(
            graph=layered(2),
            topology=topology(2, memory_bytes=1 << 34),
            setup=Setup(microbatches=4, memory_reserve=0.0),
            pipeline=Pipeline.model_validate(
                {"ranks": 2, "schedule": schedule, "cuts": ("1.linear",)}
            ),
        )
    )


def test_the_fullest_moments_of_a_stage_are_named_and_add_up() -> None:
    """Embedding, product, gelu, sum on the first of two ranks, which has 2 microbatches in flight.

    It saves the inputs of product and gelu, 2 X each. Forward most is there at the sum: the result
    of gelu and its own. Backward at the product: gelu's input is let go of; there are the gradient
    of the product's result, that of the embedding's, and of the weights before it is added to those
    of other microbatches. The next gradient is received meanwhile.
    """
    found = two_ranks("1f1b")
    stage = found.stages[0]
    moments = {moment.at: in_x(moment) for moment in stage.moments}
    assert moments == {
        "forward of 0.add": {"activations": 4, "working": 2, "buffers": 1},
        "backward of 0.linear": {"activations": 3, "working": 2, "gathered": 8, "buffers": 1},
        "optimizer step": {},
    }
    use = stage.memory_bytes
    assert use is not None
    assert use.moment == "backward of 0.linear"
    resting = use.parameters + use.gradients + use.optimizer
    assert use.total == resting + 14 * X


def test_a_split_backward_pass_has_moments_of_its_own() -> None:
    """The same stage, F0 F1 I0 W0 on its rank; I0 and W0 are fullest at the product.

    I0: saved are 2 X of the other microbatch and the embedding, X, as the product's weights wait
    for it. There are four gradients, X each: of the product's result, of the sum, which passed it
    on to the embedding, of the embedding through the product, and the sum of both. W0: of these
    two are left, of the product's result and of the embedding; weights are 8 X.
    """
    found = two_ranks("zb_h1")
    moments = [(moment.at, in_x(moment)) for moment in found.stages[0].moments]
    assert moments == [
        ("forward of 0.add", {"activations": 4, "working": 2, "buffers": 1}),
        ("backward of 0.linear", {"activations": 3, "working": 4, "buffers": 1}),
        ("backward of 0.linear", {"activations": 3, "working": 2, "gathered": 8, "buffers": 1}),
        ("optimizer step", {}),
    ]
