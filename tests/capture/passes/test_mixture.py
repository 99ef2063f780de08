"""Mixtures of experts, against their own arithmetic."""

import torch

from meshwright.capture import interpret
from meshwright.schema import Graph, Op, Tensor


def graph_of(capacity):
    def tensor(name, *shape, dtype="float32", role="activation"):
        return Tensor(name=name, shape=shape, dtype=dtype, role=role)

    return Graph(
        tensors=(
            tensor("x", 1, 4, 2, role="input"),
            tensor("index", 1, 4, 1, dtype="int64", role="input"),
            tensor("weight", 1, 4, 1, role="input"),
            tensor("w", 2, 3, 2, role="parameter"),
            tensor("slots", 2, 1, capacity, 2),
            tensor("grown", 2, 1, capacity, 3),
            tensor("y", 1, 4, 3),
        ),
        ops=(
            Op(
                name="dispatch",
                kind="moe_dispatch",
                inputs=("x", "index"),
                outputs=("slots",),
                attrs={"capacity_factor": 1.0},
            ),
            Op(
                name="experts",
                kind="expert_matmul",
                inputs=("slots", "w"),
                outputs=("grown",),
                attrs={"weight_layout": "efh"},
            ),
            Op(
                name="combine",
                kind="moe_combine",
                inputs=("grown", "index", "weight"),
                outputs=("y",),
                attrs={"capacity_factor": 1.0},
            ),
        ),
        outputs=("y",),
    )


def run(index, **options):
    x = torch.arange(8.0).reshape(1, 4, 2) + 1
    w = torch.randn(2, 3, 2)
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0]).reshape(1, 4, 1)
    index = torch.tensor(index).reshape(1, 4, 1)
    values = {"x": x, "index": index, "weight": weight, "w": w}
    made = interpret(graph_of(2), values, **options)
    each = torch.einsum("bsh,bsfh->bsf", x, w[index[..., 0]]) * weight
    return made, x, each


def test_an_even_split_fills_every_slot():
    made, x, each = run([0, 1, 1, 0])
    # tokens 0 and 3 go to expert 0, tokens 1 and 2 to expert 1, in their order
    torch.testing.assert_close(made["slots"][:, 0], torch.stack([x[0, [0, 3]], x[0, [1, 2]]]))
    torch.testing.assert_close(made["y"], each)


def test_a_token_beyond_the_slots_is_dropped():
    made, _, each = run([0, 0, 0, 1])
    # expert 0 has two slots: its third token finds none
    torch.testing.assert_close(made["y"][:, [0, 1, 3]], each[:, [0, 1, 3]])
    assert (made["y"][:, 2] == 0).all()


def test_more_slots_drop_nothing():
    made, _, each = run([0, 0, 0, 1], capacity_factor=2.0)
    torch.testing.assert_close(made["y"], each)
