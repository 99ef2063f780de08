"""One tensor given for several arguments of a forward."""

import pytest
import torch

from meshwright.capture import capture_module


class Pair(torch.nn.Module):
    """A forward of two tensors and a list of tensors."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, ids, labels, more):
        return (self.layer(ids) * labels + more[0] - more[1]).sum()


@pytest.mark.parametrize("shared", ["all", "lists", "none"])
def test_every_argument_is_an_input_of_the_graph(shared):
    def inputs(sizes):
        x, y, z, w = (torch.zeros(sizes["batch"], 4, device="meta") for _ in range(4))
        return {
            "all": {"ids": x, "labels": x, "more": [x, x]},
            "lists": {"ids": x, "labels": y, "more": [z, z]},
            "none": {"ids": x, "labels": y, "more": [z, w]},
        }[shared]

    graph = capture_module(Pair(), inputs, symbols={"batch": 8}, name="pair")
    names = [tensor.name for tensor in graph.tensors if tensor.role in ("input", "label")]
    assert sorted(names) == ["ids", "labels", "more_0", "more_1"]
