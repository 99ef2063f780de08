"""Lookups of all indices of a dim in order are views."""

import torch


def test_a_lookup_of_every_row_is_a_view(kinds):
    def function(x):
        rows = torch.arange(4)[:, None, None]
        columns = torch.arange(6)[None, :, None]
        return x[rows, columns] + x[rows, columns].mT.mT

    assert set(kinds(function, torch.randn(4, 6))) == {"reshape", "add"}


def test_a_lookup_in_another_order_stays(kinds):
    def function(x):
        rows, columns = torch.arange(4)[None, :], torch.arange(6)[:, None]
        return x[rows, columns]

    assert "index" in kinds(function, torch.randn(4, 6))


def test_a_lookup_of_some_rows_stays(kinds):
    assert "index" in kinds(lambda x: x[torch.arange(3)[:, None]], torch.randn(4, 6))
