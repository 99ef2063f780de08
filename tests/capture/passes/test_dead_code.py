"""Ops without a reader."""

import torch


def test_what_no_output_needs_is_dropped(kinds):
    def function(x):
        x.exp().sum()
        return x + 1

    assert kinds(function, torch.randn(2, 3)) == ["add"]


def test_an_op_with_one_read_output_stays_whole(kinds):
    assert kinds(lambda x: x.split(1, 0)[1] * 2, torch.randn(2, 3)) == ["split", "mul"]
