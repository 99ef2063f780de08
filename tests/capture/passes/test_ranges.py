"""Tensors written part by part, and slices and splits of concats."""

import random

import pytest
import torch

from meshwright.capture import capture_module, interpret


def test_a_slice_of_a_concat_is_its_part(kinds):
    # cat(a, b)[:, :3] is a, cat(a, b)[:, 3:] is b
    def function(a, b):
        joined = torch.cat((a, b), 1)
        return joined[:, :3].exp(), joined[:, 3:].exp()

    assert kinds(function, torch.randn(2, 3), torch.randn(2, 4)) == ["exp", "exp"]


def test_a_split_of_a_concat_is_its_parts(kinds):
    def function(a, b):
        first, second = torch.cat((a, b), 1).split((3, 4), 1)
        return first.exp() + second.exp().sum()

    assert "split" not in kinds(function, torch.randn(2, 3), torch.randn(2, 4))


def test_a_split_elsewhere_stays(kinds):
    def function(a, b):
        first, second = torch.cat((a, b), 1).split((2, 5), 1)
        return first.exp(), second.exp()

    assert kinds(function, torch.randn(2, 3), torch.randn(2, 4)) == [
        "concat", "split", "exp", "exp",
    ]  # fmt: skip


def test_a_slice_inside_one_part_reads_that_part(kinds):
    def function(a, b):
        return torch.cat((a, b), 1)[:, 4:6].exp()

    assert kinds(function, torch.randn(2, 3), torch.randn(2, 4)) == ["slice", "exp"]


def test_a_slice_along_another_dim_stays(kinds):
    def function(a, b):
        return torch.cat((a, b), 1)[:1].exp()

    assert kinds(function, torch.randn(2, 3), torch.randn(2, 4)) == ["concat", "slice", "exp"]


def test_adjacent_slices_join(kinds):
    assert kinds(lambda x: torch.cat((x[:, :2], x[:, 2:4]), 1), torch.randn(2, 5)) == ["slice"]
    assert kinds(lambda x: torch.cat((x[:, :2], x[:, 2:]), 1).exp(), torch.randn(2, 5)) == ["exp"]
    assert kinds(lambda x: torch.cat(x.chunk(2, 1), 1).exp(), torch.randn(2, 4)) == ["exp"]


def test_slices_in_another_order_stay(kinds):
    def function(x):
        return torch.cat((x[:, 2:], x[:, :2]), 1)

    assert kinds(function, torch.randn(2, 5)) == ["slice", "slice", "concat"]


def test_an_empty_tensor_that_is_written_in_full_is_a_concat(kinds):
    # keys of latent attention: one part for each head, the other the same for all heads
    def function(a, b):
        keys = a.new_empty(2, 4, 5, 7)
        keys[..., :3] = a
        keys[..., 3:] = b.expand(2, 4, 5, 4)
        return keys

    parts = torch.randn(2, 4, 5, 3), torch.randn(2, 1, 5, 4)
    assert kinds(function, *parts) == ["expand", "concat"]


def test_rows_written_in_a_loop_are_one_concat(kinds):
    def function(x):
        rows = torch.empty_like(x)
        for row in range(4):
            rows[row] = x[row] * row
        return rows

    assert kinds(function, torch.randn(4, 3)).count("concat") == 1


def test_zeros_that_are_written_in_part_are_a_pad(kinds):
    def function(x):
        wide = x.new_zeros(2, 8)
        wide[:, 1:4] = x
        return wide

    assert kinds(function, torch.randn(2, 3)) == ["pad"]


def test_constants_that_differ_stay(kinds):
    def function(x):
        return torch.cat((torch.ones(2, 1), x, torch.zeros(2, 1)), 1)

    assert kinds(function, torch.randn(2, 3)) == ["full", "full", "concat"]


class Writes(torch.nn.Module):
    """Random writes into zeros, and reads of random ranges and parts, along one dim."""

    def __init__(self, seed, length=9):
        super().__init__()
        self.seed, self.length = seed, length

    def forward(self, x):
        draw = random.Random(self.seed)
        state = x.new_zeros(2, self.length)
        for _ in range(draw.randint(1, 5)):
            start = draw.randrange(self.length)
            end = draw.randint(start + 1, self.length)
            at = draw.randrange(self.length)
            source = draw.choice((x, state))
            kind = draw.choice(("write", "write", "read", "split"))
            if kind == "write":
                state = state.clone()
                state[:, start:end] = (source * draw.choice((1, 2)))[:, start:end]
            elif kind == "read":
                state = torch.cat((state[:, at:], state[:, :at]), 1)
            elif at:
                first, second = state.split((at, self.length - at), 1)
                state = torch.cat(draw.choice(((first, second), (second, first))), 1)
        return state


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(5))
def test_folding_keeps_the_values_of_any_sequence_of_writes(first):
    shorter = 0
    for seed in range(first, 60, 5):
        x = torch.randn(2, 9)
        module = Writes(seed)
        graph = capture_module(
            module, lambda _: {"x": torch.empty(2, 9, device="meta")}, symbols={}, name="writes"
        )
        torch.testing.assert_close(interpret(graph, {"x": x})[graph.outputs[0]], module(x))
        shorter += len(graph.ops) <= 3
    # some of these states are a copy, a pad or a concat
    assert shorter > 1
