"""Masks that follow from positions alone."""

import pytest
import torch
import torch.nn.functional as F

from meshwright.capture import capture_module


def attend(mask):
    def function(x):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask(x))

    return function


def positions(x):
    at = torch.arange(x.shape[-2])
    return at[:, None], at[None, :]


def causal(x):
    query, key = positions(x)
    return (key <= query)[None, None].expand(x.shape[0], 1, -1, -1)


def causal_bias(x):
    query, key = positions(x)
    return torch.zeros(x.shape[-2], x.shape[-2]).masked_fill(key > query, float("-inf"))


def everything(x):
    query, key = positions(x)
    return (query >= 0) & (key >= 0)


def window(x):
    query, key = positions(x)
    return (key <= query) & (key > query - 3)


def lookahead(x):
    query, key = positions(x)
    return key <= query + 1


@pytest.mark.parametrize("mask", [causal, causal_bias])
def test_a_causal_mask_becomes_a_flag(mask, kinds):
    assert kinds(attend(mask), torch.randn(2, 3, 8, 4)) == ["attention"]


def test_a_mask_that_hides_nothing_is_dropped(kinds):
    assert kinds(attend(everything), torch.randn(2, 3, 8, 4)) == ["attention"]


def test_a_sliding_window_becomes_a_number(kinds):
    assert kinds(attend(window), torch.randn(2, 3, 8, 4)) == ["attention"]


def test_another_mask_stays(kinds):
    assert len(kinds(attend(lookahead), torch.randn(2, 3, 8, 4))) > 3


# a window of 9,000 positions is too long to evaluate, and so is a chunk of as many
@pytest.mark.parametrize(
    ("mask", "attrs"),
    [
        (lambda q, k: (k <= q) & (k > q - 9000), {"causal": True, "window": 9000}),
        (lambda q, k: (k <= q) & (k // 9000 == q // 9000), {"causal": True, "chunk": 9000}),
        (lambda q, k: (k <= q) & (k // 9000 == q // 8000), None),
        (lambda q, k: (k <= q) & (k // 600 == q // 600), {"causal": True, "chunk": 600}),
        (lambda q, k: (k <= q) & ((k >= 600) == (q >= 600)), None),
        (lambda q, k: (k <= q) & ((k >= 9) == (q >= 9)), None),
    ],
)
def test_large_numbers_are_replaced_by_small_ones(mask, attrs):
    class Attend(torch.nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, attn_mask=mask(*positions(x)))

    graph = capture_module(
        Attend(),
        lambda sizes: {"x": torch.empty(2, 3, sizes["seq"], 4, device="meta")},
        symbols={"seq": 32},
        name="attend",
    )
    op = graph.ops[-1]
    if attrs is None:
        assert len(op.inputs) == 4
    else:
        assert op.attrs == {"scale": 0.5, **attrs}


def test_a_mask_that_comes_from_outside_stays(kinds):
    def function(x, mask):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    mask = torch.ones(8, 8, dtype=torch.bool).tril()
    assert kinds(function, torch.randn(2, 3, 8, 4), mask) == ["attention"]
