"""Ops that change nothing."""

import torch


def test_neutral_arithmetic_and_casts_are_dropped(kinds):
    function = lambda x: ((x + 0) * 1 / 1 - 0).float().contiguous().clone().detach().exp()  # noqa: E731
    assert kinds(function, torch.randn(2, 3)) == ["exp"]


def test_a_sum_that_widens_the_dtype_stays(kinds):
    assert kinds(lambda x: (x * 1.0).exp(), torch.arange(3)) == ["mul", "exp"]


def test_an_expand_to_the_same_shape_is_dropped(kinds):
    assert kinds(lambda x: x.expand(2, -1).exp(), torch.randn(2, 3)) == ["exp"]


def test_a_join_with_nothing_is_dropped(kinds):
    assert kinds(lambda x: torch.cat([x, x[:, 3:]], 1).exp(), torch.randn(2, 3)) == ["exp"]


def test_dropout_of_nothing_is_dropped(kinds):
    assert kinds(lambda x: torch.nn.functional.dropout(x, 0.0).exp(), torch.randn(3)) == ["exp"]
