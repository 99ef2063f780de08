"""Keys and values repeated for groups of query heads."""

import torch
import torch.nn.functional as F


def repeated(x, times):
    batch, heads, length, dim = x.shape
    wide = x[:, :, None].expand(batch, heads, times, length, dim)
    return wide.reshape(batch, heads * times, length, dim)


def test_attention_reads_the_heads_before_they_are_repeated(kinds):
    def function(q, kv):
        return F.scaled_dot_product_attention(q, repeated(kv, 2), repeated(kv * 2, 2))

    q, kv = torch.randn(2, 4, 5, 6), torch.randn(2, 2, 5, 6)
    assert kinds(function, q, kv) == ["mul", "attention"]


def test_heads_repeated_in_turn_are_left_alone(kinds):
    def function(q, kv):
        tiled = kv.repeat(1, 2, 1, 1)
        return F.scaled_dot_product_attention(q, tiled, tiled)

    q, kv = torch.randn(2, 4, 5, 6), torch.randn(2, 2, 5, 6)
    assert "expand" in kinds(function, q, kv)
