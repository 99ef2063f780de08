"""Loops over a symbolic size: found before the trace, unrolled at their true length or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
import torch
from torch import nn

from meshwright.capture import capture_module, interpret
from meshwright.schema import Graph, GraphError

T = torch.Tensor
ROWS = 3


class Loop(nn.Module):
    """A loss of `rounds`, which subclasses make in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.gates = nn.LSTMCell(4, 6), nn.GRUCell(4, 6)
        self.plain, self.map = nn.RNNCell(4, 6, nonlinearity="relu"), nn.Linear(4, 6)

    def forward(self, x: T, target: T) -> T:
        return (self.rounds(x) - target).pow(2).mean()

    def rounds(self, x: T) -> T:
        raise NotImplementedError


class Steps(Loop):
    def rounds(self, x: T) -> T:
        h = c = g = p = x.new_zeros(x.shape[0], 6)
        states = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            g, p = self.gates(x[:, t], g), self.plain(x[:, t], p)
            states.append(h + g + p)
        return torch.stack(states, 1)


class Chunks(Loop):
    def rounds(self, x: T) -> T:
        return torch.cat([self.map(x[:, i : i + 5]) for i in range(0, x.shape[1], 5)], 1)


class Rows(Loop):
    def rounds(self, x: T) -> T:
        return torch.stack([self.map(row) for row in x])


class Layers(Loop):
    """As often at all sizes, with a branch for long sequences."""

    def rounds(self, x: T) -> T:
        y = self.map(x)
        for _ in range(20):
            y = y.relu() + 1
        return y * 2 if x.shape[1] > 100 else y


def inputs(sizes: Mapping[str, int]) -> dict[str, T]:
    rows, steps = sizes["batch"], sizes["seq"]
    return {"x": torch.randn(rows, steps, 4), "target": torch.randn(rows, steps, 6)}


def captured(module: nn.Module, seq: int) -> Graph:
    def on_meta(sizes: Mapping[str, int]) -> dict[str, T]:
        shape = sizes["batch"], sizes["seq"]
        return {
            "x": torch.empty(*shape, 4, device="meta"),
            "target": torch.empty(*shape, 6, device="meta"),
        }

    return capture_module(module, on_meta, symbols={"batch": 64, "seq": seq}, name="loops")


@pytest.mark.parametrize("kind", [Steps, Chunks])
def test_a_short_loop_is_unrolled_at_its_true_length_with_a_note(kind: type[Loop]) -> None:
    module, seq = kind(), 13
    graph = captured(module, seq)
    assert graph.symbols == {"batch": 64}
    (note,) = graph.notes
    assert f"{__file__}:" in note
    assert note.endswith("is unrolled; the graph holds at seq = 13 alone")
    kinds = Counter(op.kind for op in graph.ops)
    assert kinds["lstm"] == kinds["gru"] == kinds["rnn"] == (seq if kind is Steps else 0)
    values, parameters = inputs({"batch": ROWS, "seq": seq}), dict(module.named_parameters())
    loss = module(**values)
    made = interpret(graph, {**parameters, **values}, symbols={"batch": ROWS})[graph.loss]
    torch.testing.assert_close(made, loss)
    options = {"allow_unused": True, "materialize_grads": True}
    wanted = torch.autograd.grad(loss, list(parameters.values()), **options)
    found = torch.autograd.grad(made, list(parameters.values()), **options)
    torch.testing.assert_close(found, wanted)


def test_a_long_loop_is_refused_with_its_line() -> None:
    with pytest.raises(GraphError, match="a loop over 'seq' would be unrolled") as refusal:
        captured(Steps(), 4000)
    assert f"{__file__}:" in str(refusal.value)
    assert str(refusal.value).endswith("or a smaller 'seq'")


def test_a_loop_over_the_batch_is_refused() -> None:
    with pytest.raises(GraphError, match="a loop over 'batch' would be unrolled"):
        captured(Rows(), 16)


def test_layers_and_branches_are_no_loops_over_sizes() -> None:
    graph = captured(Layers(), 200)
    assert graph.symbols == {"batch": 64, "seq": 200}
    assert graph.notes == ()
