"""Programs that communicate on their own are refused by name."""

import pytest
import torch

from meshwright.capture import capture_module
from meshwright.schema import GraphError


class Summed(torch.nn.Module):
    def forward(self, x):
        made = torch.ops._c10d_functional.all_reduce(x, "sum", "0")
        return torch.ops._c10d_functional.wait_tensor(made).sum()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Summed()

    def forward(self, x):
        return self.inner(x)


def test_a_module_with_a_collective_of_its_own_is_refused_by_name():
    with pytest.raises(GraphError, match=r"inner communicates .*_c10d_functional.all_reduce"):
        capture_module(Net(), lambda _: [torch.zeros(4, device="meta")], symbols={}, name="net")
