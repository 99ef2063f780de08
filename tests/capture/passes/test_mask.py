"""Masks that follow from positions alone."""

import pytest
import torch
import torch.nn.functional as F


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


@pytest.mark.parametrize("mask", [window, lookahead])
def test_another_mask_stays(mask, kinds):
    assert len(kinds(attend(mask), torch.randn(2, 3, 8, 4))) > 3


def test_a_mask_that_comes_from_outside_stays(kinds):
    def function(x, mask):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    mask = torch.ones(8, 8, dtype=torch.bool).tril()
    assert kinds(function, torch.randn(2, 3, 8, 4), mask) == ["attention"]
