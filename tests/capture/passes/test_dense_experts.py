"""Experts that a program applies to all tokens."""

import pytest
import torch
import torch.nn.functional as F

from meshwright.capture import capture_module, interpret

EXPERTS, HIDDEN, INNER = 4, 6, 5


class Experts(torch.nn.Module):
    """The chosen expert of each token, computed for all tokens with zeros for the others."""

    def __init__(self, activation=F.silu, *, low=float("-inf"), choices=1, bias=False):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(EXPERTS, HIDDEN, 2 * INNER))
        self.down = torch.nn.Parameter(torch.randn(EXPERTS, INNER, HIDDEN))
        self.router = torch.nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.bias = torch.nn.Parameter(torch.randn(EXPERTS, 1, INNER)) if bias else None
        self.activation, self.low, self.choices = activation, low, choices

    def forward(self, x):
        tokens = x.reshape(-1, HIDDEN)
        values, index = self.router(tokens).topk(self.choices, dim=1)
        full = torch.full((len(tokens), EXPERTS), self.low, device=x.device)
        scores = full.scatter_(1, index, values)
        scores = scores.sigmoid() if self.low else scores
        routed = tokens.repeat(EXPERTS, 1) * scores.transpose(0, 1).reshape(-1, 1)
        gate, up = torch.bmm(routed.view(EXPERTS, -1, HIDDEN), self.up).chunk(2, dim=-1)
        inner = up * self.activation(gate)
        if self.bias is not None:
            inner = inner + self.bias
        return torch.bmm(inner, self.down).sum(dim=0).view(x.shape)


def captured(module):
    return capture_module(
        module,
        lambda sizes: {"x": torch.empty(sizes["batch"], 8, HIDDEN, device="meta")},
        symbols={"batch": 3},
        name="experts",
    )


def kinds_of(module):
    return {op.kind for op in captured(module).ops}


@pytest.mark.parametrize("activation", [F.silu, F.gelu, torch.relu, torch.tanh])
@pytest.mark.parametrize("low", [float("-inf"), 0.0])
def test_each_expert_computes_the_tokens_that_chose_it(activation, low):
    module = Experts(activation, low=low)
    graph = captured(module)
    kinds = [op.kind for op in graph.ops]
    assert kinds.count("expert_matmul") == 2
    assert "matmul" not in kinds
    x = torch.randn(3, 8, HIDDEN)
    values = {**dict(module.named_parameters()), "x": x}
    outputs = interpret(graph, values)
    torch.testing.assert_close(outputs[graph.outputs[0]], module(x))


def test_an_expert_that_gives_something_for_zero_computes_all_tokens():
    assert "expert_matmul" not in kinds_of(Experts(bias=True))
    assert "expert_matmul" not in kinds_of(Experts(torch.cos))


def test_several_choices_stay():
    assert "expert_matmul" not in kinds_of(Experts(choices=2))


def test_scores_that_are_not_zero_elsewhere_stay():
    assert "expert_matmul" not in kinds_of(Experts(low=-1.0))
