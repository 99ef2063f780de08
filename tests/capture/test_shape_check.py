"""A graph whose sizes hold at the traced length alone is refused."""

import pytest
import torch

from meshwright.capture import capture_module
from meshwright.schema.errors import GraphError


class Table(torch.nn.Module):
    """Positions from a table: its first rows, or its last ones."""

    def __init__(self, last):
        super().__init__()
        self.table, self.last = torch.nn.Parameter(torch.randn(512, 8)), last

    def forward(self, x):
        length = x.shape[1]
        rows = self.table[512 - length :] if self.last else self.table[:length]
        return (x * rows).mean()


def captured(module, seq):
    return capture_module(
        module,
        lambda sizes: {"x": torch.zeros(sizes["batch"], sizes["seq"], 8, device="meta")},
        symbols={"batch": 4, "seq": seq},
        name="table",
        limits={"seq": 512},
    )


def test_a_table_that_is_cut_from_its_start_is_captured():
    graph = captured(Table(last=False), 200)
    assert graph.symbols == {"batch": 4, "seq": 200}


def test_a_table_that_is_cut_from_its_end_is_refused():
    with pytest.raises(GraphError, match=r"a size of 'slice' .* batch = 4, seq = 200 .*\[\d+, 8\]"):
        captured(Table(last=True), 200)


class LowPrecision(torch.nn.Module):
    def forward(self, x):
        return x.to(torch.float8_e4m3fn).reshape(-1, 4).float().mean()


def test_dtypes_with_another_name_in_torch_are_checked():
    graph = captured(LowPrecision(), 200)
    assert "float8_e4m3" in {tensor.dtype for tensor in graph.tensors}
