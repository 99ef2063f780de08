"""Views of views."""

import torch


def test_a_chain_of_reshapes_is_one(kinds):
    # the one that is left stands behind the op, see test_leading_dims
    function = lambda x: x.unsqueeze(0).flatten(1).view(6, 4).exp()  # noqa: E731
    assert kinds(function, torch.randn(2, 3, 4)) == ["exp", "reshape"]


def test_reshapes_that_undo_each_other_are_none(kinds):
    assert kinds(lambda x: x.flatten().view(2, 3).exp(), torch.randn(2, 3)) == ["exp"]


def test_a_chain_of_transposes_is_one(kinds):
    function = lambda x: x.transpose(0, 1).permute(2, 0, 1).exp()  # noqa: E731
    assert kinds(function, torch.randn(2, 3, 4)) == ["transpose", "exp"]


def test_transposes_that_undo_each_other_are_none(kinds):
    assert kinds(lambda x: x.mT.exp().mT.mT.mT.exp(), torch.randn(2, 3)) == [
        "transpose", "exp", "transpose", "exp",
    ]  # fmt: skip
    assert kinds(lambda x: x.mT.mT.exp(), torch.randn(2, 3)) == ["exp"]


def test_a_view_between_two_others_keeps_its_other_reader(kinds):
    def function(x):
        flat = x.flatten()
        return flat.view(3, 2).exp(), flat.exp()

    assert sorted(kinds(function, torch.randn(2, 3))) == ["exp", "exp", "reshape", "reshape"]
