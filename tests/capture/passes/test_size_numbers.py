"""Numbers that follow from sizes hold at every size, or are noted."""

import pytest
import torch

from meshwright.capture import capture_module, interpret


class Scaled(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return (x * self.number(x.shape[0])).sum()


def captured(number):
    return capture_module(
        Scaled(number),
        lambda sizes: {"x": torch.zeros(sizes["batch"], 4, device="meta")},
        symbols={"batch": 32},
        name="scaled",
    )


@pytest.mark.parametrize(
    "number", [lambda n: 1 / n, lambda n: -1 / (3 * n), float, lambda _: 0.5, lambda _: 1e-300]
)
def test_a_fraction_of_a_size_holds_at_every_size(number):
    graph, x = captured(number), torch.ones(8, 4)
    made = interpret(graph, {"x": x}, symbols={"batch": 8})[graph.loss]
    torch.testing.assert_close(made, Scaled(number)(x))
    assert graph.notes == ()


def test_another_number_of_the_batch_is_that_of_the_graph_with_a_note():
    graph = captured(lambda n: n**-0.5)
    (note,) = graph.notes
    assert note.startswith("the number 0.176777 follows from the batch and is kept, at ")
    made = interpret(graph, {"x": torch.ones(32, 4)})[graph.loss]
    torch.testing.assert_close(made, torch.tensor(32 * 4 * 32**-0.5))


class Attention(torch.nn.Module):
    """Attention whose scale is the length of the sequence."""

    def forward(self, x):
        return ((x @ x.mT / x.shape[1]).softmax(-1) @ x).sum()


def test_a_pattern_takes_no_size_for_a_number():
    graph = capture_module(
        Attention(),
        lambda sizes: {"x": torch.zeros(sizes["batch"], sizes["seq"], 4, device="meta")},
        symbols={"batch": 32, "seq": 64},
        name="attention",
    )
    x = torch.rand(2, 8, 4)
    made = interpret(graph, {"x": x}, symbols={"batch": 2, "seq": 8})[graph.loss]
    torch.testing.assert_close(made, Attention()(x))
