"""Multiplications by parameters."""

import pytest
import torch


class Product(torch.nn.Module):
    def __init__(self, function, shape):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(shape))
        self.bias = torch.nn.Parameter(torch.randn(5))
        self.function = function

    def forward(self, x):
        return self.function(x, self.weight, self.bias)


@pytest.mark.parametrize(
    ("function", "shape", "layout"),
    [
        (lambda x, w, _: x @ w, (4, 5), "kn"),
        (lambda x, w, _: x @ w.T, (5, 4), "nk"),
        (lambda x, w, b: torch.nn.functional.linear(x, w, b), (5, 4), "nk"),
        (lambda x, w, b: torch.nn.functional.linear(x, w.T, b), (4, 5), "kn"),
        (lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w).view(2, 3, 5), (4, 5), "kn"),
    ],
)
def test_a_product_with_a_parameter_is_linear(function, shape, layout, check_capture):
    graph = check_capture(Product(function, shape), torch.randn(2, 3, 4))
    (op,) = graph.ops
    assert op.kind == "linear"
    assert op.attrs == {"weight_layout": layout}
    assert op.inputs[1] == "inner.weight"


def test_a_product_of_activations_is_a_matmul(kinds):
    assert kinds(lambda x: x @ x.mT, torch.randn(2, 3, 4)) == ["transpose", "matmul"]
