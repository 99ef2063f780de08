"""A graph whose sizes hold at one length alone has this length."""

import torch

from meshwright.capture import capture_module


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


def test_a_table_that_is_cut_from_its_end_is_captured_at_its_length():
    graph = captured(Table(last=True), 200)
    assert graph.symbols == {"batch": 4}
    (note,) = graph.notes
    assert "rows = self.table[512 - length :]" in note
    assert note.endswith("the graph holds at seq = 200 alone")
    (rows,) = [op for op in graph.ops if op.kind == "slice"]
    assert rows.attrs["start"] == 312


class LowPrecision(torch.nn.Module):
    def forward(self, x):
        return x.to(torch.float8_e4m3fn).reshape(-1, 4).float().mean()


def test_dtypes_with_another_name_in_torch_are_checked():
    graph = captured(LowPrecision(), 200)
    assert "float8_e4m3" in {tensor.dtype for tensor in graph.tensors}
