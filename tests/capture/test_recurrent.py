"""Recurrent layers: one op for each layer and direction, which trains the same as the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
import torch
from torch import nn

from meshwright.capture import capture_module, interpret
from meshwright.plugins.planner import certificate_of, find_planner, find_verifier, preset
from meshwright.schema import Graph, GraphError
from tests.one_stage import one_stage_request

T = torch.Tensor
WIDTH, HIDDEN = 6, 8
SIZES = {"batch": 3, "seq": 5}


class Tagger(nn.Module):
    """Recurrent layers and a loss of their outputs and last states."""

    def __init__(self, layers: nn.Module, width: int, *, has_state: bool = False) -> None:
        super().__init__()
        self.layers, self.head = layers, nn.Linear(width, 4)
        self.state = nn.Parameter(torch.randn(HIDDEN)) if has_state else None

    def forward(self, x: T, target: T) -> T:
        if not self.layers.batch_first:
            x = x.transpose(0, 1)
        if self.state is None:
            y, last = self.layers(x)
        else:
            rows = x.shape[0] if self.layers.batch_first else x.shape[1]
            y, last = self.layers(x, self.state.expand(1, rows, HIDDEN).contiguous())
        if not self.layers.batch_first:
            y = y.transpose(0, 1)
        states = last if isinstance(last, tuple) else (last,)
        return ((self.head(y) - target) ** 2).mean() + sum(s.square().mean() for s in states)


def inputs(sizes: Mapping[str, int]) -> dict[str, T]:
    rows, steps = sizes["batch"], sizes["seq"]
    return {"x": torch.randn(rows, steps, WIDTH), "target": torch.randn(rows, steps, 4)}


def captured(module: nn.Module, symbols: Mapping[str, int] | None = None) -> Graph:
    def on_meta(sizes: Mapping[str, int]) -> dict[str, T]:
        return {
            "x": torch.empty(sizes["batch"], sizes["seq"], WIDTH, device="meta"),
            "target": torch.empty(sizes["batch"], sizes["seq"], 4, device="meta"),
        }

    return capture_module(module, on_meta, symbols=symbols or {"batch": 64, "seq": 32}, name="tags")


LAYERS = {
    "lstm": (nn.LSTM(WIDTH, HIDDEN, batch_first=True), HIDDEN),
    "lstm, both directions": (nn.LSTM(WIDTH, HIDDEN, 2, bidirectional=True), 2 * HIDDEN),
    "lstm with projections": (nn.LSTM(WIDTH, HIDDEN, 2, proj_size=4, batch_first=True), 4),
    "gru": (nn.GRU(WIDTH, HIDDEN, 2), HIDDEN),
    "gru, both directions": (
        nn.GRU(WIDTH, HIDDEN, bias=False, batch_first=True, bidirectional=True), 2 * HIDDEN
    ),
    "rnn": (nn.RNN(WIDTH, HIDDEN, 2), HIDDEN),
    "rnn with relu": (nn.RNN(WIDTH, HIDDEN, nonlinearity="relu", batch_first=True), HIDDEN),
}  # fmt: skip


def trains_the_same(module: nn.Module, graph: Graph) -> None:
    values = inputs(SIZES)
    parameters = dict(module.named_parameters())
    loss = module(**values)
    made = interpret(graph, {**parameters, **values}, symbols=SIZES)[graph.loss]
    torch.testing.assert_close(made, loss)
    wanted = torch.autograd.grad(loss, list(parameters.values()))
    found = torch.autograd.grad(made, list(parameters.values()))
    for name, one, other in zip(parameters, wanted, found, strict=True):
        torch.testing.assert_close(other, one, msg=lambda text, at=name: f"{at}: {text}")


@pytest.mark.rotating
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_train_the_same_as_their_graph(name: str) -> None:
    module = Tagger(*LAYERS[name])
    graph = captured(module)
    layers = module.layers
    count = layers.num_layers * (2 if layers.bidirectional else 1)
    kind = layers.mode.split("_")[0].lower()
    assert Counter(op.kind for op in graph.ops)[kind] == count
    assert not any(op.attrs["state"] for op in graph.ops if op.kind == kind)
    assert graph.notes == ()
    trains_the_same(module, graph)


def test_a_learned_initial_state_stays() -> None:
    module = Tagger(nn.GRU(WIDTH, HIDDEN, batch_first=True), HIDDEN, has_state=True)
    graph = captured(module)
    assert [op.attrs["state"] for op in graph.ops if op.kind == "gru"] == [True]
    trains_the_same(module, graph)


def test_dropout_between_layers_is_an_op() -> None:
    graph = captured(Tagger(nn.LSTM(WIDTH, HIDDEN, 3, dropout=0.2), HIDDEN))
    (first, second) = (op for op in graph.ops if op.kind == "dropout")
    assert first.attrs["p"] == second.attrs["p"] == 0.2


def test_a_plan_on_eight_devices_shards_the_batch_and_is_verified() -> None:
    graph = captured(
        Tagger(nn.LSTM(WIDTH, HIDDEN, 2, bidirectional=True), 2 * HIDDEN),
        {"batch": 4096, "seq": 64},
    )
    request = one_stage_request(graph=graph, topology=preset("h100-1x8"))
    answer = find_planner()(request)
    assert answer.plan is not None
    for op in answer.plan.stages[0].ops:
        if op.kind == "lstm":
            assert set(op.strategy) == {"b"}
            # 64 steps forward and backward, one after the other
            assert op.compute_ns > 2 * 64 * 6_800
    certificate = certificate_of(find_verifier(), answer.plan, request)
    assert certificate.outcome == "verified"


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(WIDTH, HIDDEN, batch_first=True)

    def forward(self, x: T, target: T) -> T:
        lengths = torch.full((x.shape[0],), 2, device="cpu")
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return self.layers(packed)[1][0].mean() + target.mean()


def test_packed_sequences_are_refused_in_one_line() -> None:
    with pytest.raises(GraphError, match="packed sequences") as refusal:
        captured(Packed())
    assert "\n" not in str(refusal.value)


class KeywordCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, HIDDEN)

    def forward(self, x: T, target: T) -> T:
        weights = self.cell.weight_ih, self.cell.weight_hh
        biases = {"b_ih": self.cell.bias_ih, "b_hh": self.cell.bias_hh}
        state = torch.gru_cell(x[:, 0], torch.zeros(x.shape[0], HIDDEN), *weights, **biases)
        return (state.sum(-1) * target[:, 0, 0]).sum()


def test_a_cell_that_is_called_by_keywords_keeps_its_biases() -> None:
    graph = captured(KeywordCell())
    (cell,) = [op for op in graph.ops if op.kind == "gru"]
    assert cell.attrs["bias"]
