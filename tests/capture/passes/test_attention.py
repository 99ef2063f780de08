"""Attention written out in products and a softmax."""

import pytest
import torch
import torch.nn.functional as F

from meshwright.capture import capture_module, interpret


def inputs(heads=4, groups=4):
    return torch.randn(2, heads, 8, 6), torch.randn(2, groups, 8, 6), torch.randn(2, groups, 8, 5)


def positions(x):
    at = torch.arange(x.shape[-2], device=x.device)
    return at[:, None], at[None, :]


def bias(visible):
    return torch.zeros(visible.shape, device=visible.device).masked_fill(~visible, float("-inf"))


def attention_of(function, *tensors):
    """The attributes of the one attention op that is left; its value is checked as well."""
    module = _Function(function)
    named = {f"x{place}": tensor for place, tensor in enumerate(tensors)}
    graph = capture_module(
        module,
        lambda _: {name: tensor.to("meta") for name, tensor in named.items()},
        symbols={},
        name="case",
    )
    torch.testing.assert_close(interpret(graph, named)[graph.outputs[0]], function(*tensors))
    kinds = [op.kind for op in graph.ops]
    assert "softmax" not in kinds, kinds
    assert "matmul" not in kinds, kinds
    return next(op for op in graph.ops if op.kind == "attention")


class _Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, **tensors):
        return self.function(*tensors.values())


def test_products_and_a_softmax_are_attention():
    op = attention_of(lambda q, k, v: ((q @ k.mT) * 0.25).softmax(-1) @ v, *inputs())
    assert op.attrs == {"causal": False, "scale": 0.25}


@pytest.mark.parametrize("by", [lambda s: s / 4.0, lambda s: s * 0.5 * 0.5])
def test_every_scale_counts(by):
    op = attention_of(lambda q, k, v: by(q @ k.mT).softmax(-1) @ v, *inputs())
    assert op.attrs["scale"] == pytest.approx(0.25)


def test_a_causal_bias_is_a_flag():
    def function(q, k, v):
        query, key = positions(q)
        return (q @ k.mT + bias(key <= query)).softmax(-1) @ v

    assert attention_of(function, *inputs()).attrs == {"causal": True, "scale": 1.0}


def test_a_masked_fill_is_a_mask():
    def function(q, k, v):
        query, key = positions(q)
        return (q @ k.mT).masked_fill(key > query, -1e9).softmax(-1) @ v

    assert attention_of(function, *inputs()).attrs["causal"] is True


@pytest.mark.parametrize("is_visible", [True, False])
def test_a_choice_is_a_mask(is_visible):
    def function(q, k, v):
        query, key = positions(q)
        scores, low = q @ k.mT, float("-inf")
        chosen = (
            torch.where(key <= query, scores, low)
            if is_visible
            else torch.where(key > query, low, scores)
        )
        return chosen.softmax(-1) @ v

    assert attention_of(function, *inputs()).attrs["causal"] is True


def test_a_sliding_window_is_an_attribute():
    def function(q, k, v):
        query, key = positions(q)
        return (q @ k.mT + bias((key <= query) & (key > query - 3))).softmax(-1) @ v

    assert attention_of(function, *inputs()).attrs["window"] == 3


def test_a_chunk_is_an_attribute():
    def function(q, k, v):
        query, key = positions(q)
        return (q @ k.mT + bias((key <= query) & (key // 3 == query // 3))).softmax(-1) @ v

    assert attention_of(function, *inputs()).attrs["chunk"] == 3


def test_sinks_take_weight_of_every_query():
    def function(q, k, v, sinks):
        column = sinks.reshape(1, -1, 1, 1).expand(2, -1, 8, 1)
        scores = torch.cat((q @ k.mT, column), -1)
        scores = scores - scores.max(dim=-1, keepdim=True).values
        return scores.softmax(-1)[..., :-1] @ v

    op = attention_of(function, *inputs(), torch.randn(4))
    assert op.attrs == {"causal": False, "scale": 1.0, "sinks": True}
    assert op.inputs[-1] == "x3"


def test_a_column_for_each_query_is_no_sink(kinds):
    def function(q, k, v, column):
        return torch.cat((q @ k.mT, column), -1).softmax(-1)[..., :-1] @ v

    assert "attention" not in kinds(function, *inputs(), torch.randn(2, 4, 8, 1))


def test_a_softcap_is_an_attribute():
    def function(q, k, v):
        query, key = positions(q)
        scores = torch.tanh(q @ k.mT * 0.5 / 30.0) * 30.0
        return (scores + bias(key <= query)).softmax(-1) @ v

    op = attention_of(function, *inputs())
    assert op.attrs == {"causal": True, "scale": 0.5, "softcap": 30.0}


def test_a_bias_that_is_learned_stays_a_mask():
    op = attention_of(
        lambda q, k, v, b: (q @ k.mT + b).softmax(-1) @ v, *inputs(), torch.randn(4, 8, 8)
    )
    assert len(op.inputs) == 4


def test_repeated_heads_are_dropped():
    def function(q, k, v):
        k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 4, 8, -1) for x in (k, v))
        return (q @ k.mT).softmax(-1) @ v

    op = attention_of(function, *inputs(groups=2))
    assert op.inputs == ("x0", "x1", "x2")


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: (q @ k.mT).softmax(-2) @ v,
        lambda q, k, v: (q @ k.mT).sigmoid() @ v,
        lambda q, k, v: ((q @ k.mT).softmax(-1) * 2 + 1) @ v,
        lambda q, k, v: ((q @ k.mT) + (q @ k.mT).tanh()).softmax(-1)[:, :, :, :4] @ v[:, :, :4],
    ],
)
def test_another_computation_stays(function, kinds):
    assert "attention" not in kinds(function, *inputs())


def test_weights_that_are_returned_stay(kinds):
    def function(q, k, v):
        weights = (q @ k.mT).softmax(-1)
        return weights @ v, weights

    assert "softmax" in kinds(function, *inputs())


def test_random_spellings_keep_their_values():
    # every combination of scale, cap, mask, sinks and precision of the softmax
    for number in range(32):
        scale, cap, masked, sunk, wide = ((number >> bit) & 1 for bit in range(5))

        def function(q, k, v, sinks, scale=scale, cap=cap, masked=masked, sunk=sunk, wide=wide):
            scores = q @ k.mT
            scores = scores * 0.3 if scale else scores
            scores = torch.tanh(scores / 5.0) * 5.0 if cap else scores
            if masked:
                query, key = positions(q)
                scores = scores + bias((key <= query) & (key > query - 4))
            if sunk:
                column = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
                scores = torch.cat((scores, column), -1)
            weights = scores.softmax(-1, dtype=torch.float64 if wide else None).to(q.dtype)
            return (weights[..., :-1] if sunk else weights) @ v

        op = attention_of(function, *inputs(), torch.randn(4))
        assert ("sinks" in op.attrs, "softcap" in op.attrs) == (bool(sunk), bool(cap))
        assert op.attrs.get("window") == (4 if masked else None)


def test_flash_and_written_attention_give_one_graph(kinds):
    def flash(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=0.4)

    def written(q, k, v):
        return ((q @ k.mT) * 0.4).softmax(-1) @ v

    assert kinds(flash, *inputs()) == kinds(written, *inputs())


class Pooled(torch.nn.Module):
    """One learned query for each sample, as in the pooling head of SigLIP."""

    def __init__(self):
        super().__init__()
        self.probe = torch.nn.Parameter(torch.randn(1, 1, 16))
        self.attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.attention(self.probe.repeat(x.shape[0], 1, 1), x, x)[0].mean()


def test_one_query_for_each_sample_is_not_taken_for_one_for_each_head(check_capture):
    check_capture(Pooled(), torch.randn(3, 6, 16))
