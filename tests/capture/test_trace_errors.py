"""Modules that cannot be traced: one line that names the cause and the line of the source; and
notes on what capture leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from meshwright.capture import capture_module
from meshwright.schema import Graph, GraphError

T = torch.Tensor


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 16)

    def forward(self, x: T) -> T:
        return self.up(x).pow(2).mean()


class ReadsAnItem(Layer):
    def forward(self, x: T) -> T:
        y = self.up(x)
        return y.mean() * 2 if y.sum().item() > 0 else y.mean()


class BranchesOnATensor(Layer):
    def forward(self, x: T) -> T:
        y = self.up(x)
        if (y > 0).all():
            y = y * 2
        return y.mean()


class LoopsWhileATensorIsSmall(Layer):
    def forward(self, x: T) -> T:
        y = self.up(x)
        while y.sum() < 1:
            y = y + 1
        return y.mean()


class CountsNonzeros(Layer):
    def forward(self, x: T) -> T:
        rows = torch.nonzero(self.up(x)[:, 0])
        return rows.float().mean() * int(rows.shape[0] > 3)


class HasAnotherWidth(Layer):
    def forward(self, x: T) -> T:
        return self.up(x[:, :15]).mean()


class Positions(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(64, 16))

    def forward(self, x: T) -> T:
        return self.up(x + self.table[: x.shape[1]]).pow(2).mean()


class Checkpointed(Layer):
    def forward(self, x: T) -> T:
        return checkpoint(self.up, x, use_reentrant=False).pow(2).mean()


class WithoutLoss(Layer):
    def forward(self, x: T) -> T:
        return self.up(x)


def captured(module: nn.Module, **symbols: int) -> Graph:
    symbols = {"batch": 8, **symbols}
    return capture_module(
        module,
        lambda sizes: {"x": torch.zeros(*(sizes[name] for name in symbols), 16, device="meta")},
        symbols=symbols,
        name="module",
    )


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        (ReadsAnItem, "return y.mean() * 2 if y.sum().item() > 0 else y.mean()"),
        (BranchesOnATensor, "if (y > 0).all():"),
        (LoopsWhileATensorIsSmall, "while y.sum() < 1:"),
        (CountsNonzeros, "return rows.float().mean() * int(rows.shape[0] > 3)"),
    ],
)
def test_a_forward_pass_that_depends_on_values_is_refused(
    kind: type[nn.Module], source: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(GraphError) as refused:
        captured(kind())
    message = str(refused.value)
    assert message.startswith(
        f"the forward pass of {kind.__name__} depends on the values of a tensor, "
    )
    assert re.search(rf"test_trace_errors\.py:\d+: `{re.escape(source)}`", message)
    assert "torch.where" in message
    assert "\n" not in message
    assert capfd.readouterr() == ("", "")


def test_another_failure_is_told_with_the_line_of_the_source() -> None:
    with pytest.raises(
        GraphError, match=r"HasAnotherWidth cannot be traced: RuntimeError: .*`return self\.up"
    ):
        captured(HasAnotherWidth())


def test_a_position_table_bounds_the_traced_sequence() -> None:
    graph = captured(Positions(), seq=64)
    assert graph.tensor("x").shape == ("batch", "seq", 16)
    assert graph.symbols == {"batch": 8, "seq": 64}
    assert graph.notes == ()


def test_a_checkpoint_is_noted() -> None:
    (note,) = captured(Checkpointed()).notes
    assert note.startswith("torch.utils.checkpoint is not part of the graph")


def test_a_missing_loss_is_noted() -> None:
    (note,) = captured(WithoutLoss()).notes
    assert note.startswith("the forward pass returns no scalar first")


class ChecksANumber(Layer):
    def forward(self, x: T, lengths: T) -> T:
        torch._check(lengths.max().item() <= x.shape[1])
        return self.up(x).pow(2).mean()


def test_a_number_that_only_a_check_reads_is_no_op() -> None:
    def inputs(sizes: Mapping[str, int]) -> dict[str, T]:
        lengths = torch.zeros(sizes["batch"], dtype=torch.long, device="meta")
        return {"x": torch.zeros(sizes["batch"], 4, 16, device="meta"), "lengths": lengths}

    graph = capture_module(ChecksANumber(), inputs, symbols={"batch": 8}, name="checks")
    assert [op.kind for op in graph.ops] == ["linear", "pow", "mean"]
