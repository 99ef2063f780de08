"""Leading dims merged around row-wise ops."""

import torch
import torch.nn.functional as F


def test_a_flattened_linear_keeps_batch_and_sequence(check_capture):
    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 5)

        def forward(self, x):
            rows = torch.relu(self.inner(x.view(-1, 4))) + 1
            return rows.softmax(-1).view(2, 3, 5)

    graph = check_capture(Flat(), torch.randn(2, 3, 4))
    assert [op.kind for op in graph.ops] == ["linear", "relu", "add", "softmax"]
    assert graph.tensor(graph.outputs[0]).shape == (2, 3, 5)


def test_heads_and_rows_merged_at_once_are_merged_in_turn(check_capture):
    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 5)

        def forward(self, x):
            return self.inner(x.reshape(6, 8)).view(2, 3, 5)

    graph = check_capture(Heads(), torch.randn(2, 3, 4, 2))
    assert [op.kind for op in graph.ops] == ["reshape", "linear"]


def test_cross_entropy_reads_the_logits_as_they_were(kinds):
    def function(logits):
        return F.cross_entropy(logits.view(-1, 7), logits.argmax(-1).view(-1))

    assert kinds(function, torch.randn(2, 3, 7)) == ["argmax", "cross_entropy"]


def test_losses_of_each_row_are_merged_behind(kinds):
    def function(logits):
        return F.cross_entropy(logits.view(-1, 7), logits.argmax(-1).view(-1), reduction="none")

    assert kinds(function, torch.randn(2, 3, 7)) == ["argmax", "cross_entropy", "reshape"]


def test_an_op_that_mixes_rows_keeps_them_merged(kinds):
    function = lambda x: x.view(-1, 4).softmax(0).view(2, 3, 4)  # noqa: E731
    assert kinds(function, torch.randn(2, 3, 4)) == ["reshape", "softmax", "reshape"]


def test_rows_that_meet_other_rows_keep_them_merged(kinds):
    function = lambda x, y: (x.view(-1, 4) * y).view(2, 3, 4)  # noqa: E731
    assert kinds(function, torch.randn(2, 3, 4), torch.randn(6, 4)) == [
        "reshape", "mul", "reshape",
    ]  # fmt: skip
