"""Writes in place become new values, with the gradients of the module, or are refused."""

import pytest
import torch
from torch.nn import functional as F

from meshwright.schema import GraphError
from tests import own_ops
from tests.capture.training import check_training

assert own_ops.double_in_place  # the import registers the operators


class Layer(torch.nn.Module):
    """A function of the module's linear layer and an input."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = torch.nn.Linear(6, 6), function

    def forward(self, x):
        return self.function(self.linear, x).sin().sum()


def write_to_diagonal(linear, x):
    scores = linear(x)[..., None] * torch.ones(6)
    scores.diagonal(0, 1, 2).mul_(3.0)
    return scores


def write_to_list(linear, x):
    scaled = linear(x) * 1.5
    torch._foreach_mul_([scaled], 3.0)
    return scaled


def write_to_an_out_argument(linear, x):
    scaled = torch.empty_like(x)
    torch.mul(x, 3.0, out=scaled)
    return linear(x) * scaled


def write_to_a_view_beside_stops(linear, x):
    hidden = linear(x)
    part = torch.zeros(x.shape[0], 6)
    part[:, 1:3] = hidden[:, 1:3]
    with torch.no_grad():
        target = linear(x) * 3.0
    return hidden * hidden.detach() * target + part


def write_to_a_detached_tensor(linear, x):
    detached = linear(x).detach()
    detached.mul_(3.0)
    return linear(x) * detached


@pytest.mark.parametrize(
    "function",
    [
        write_to_diagonal,
        write_to_list,
        write_to_an_out_argument,
        write_to_a_view_beside_stops,
        write_to_a_detached_tensor,
    ],
)
def test_a_write_keeps_values_and_gradients(function):
    check_training(Layer(function), lambda sizes: {"x": torch.randn(sizes["batch"], 6)})


def change_without_gradient(linear, x):
    hidden = linear(x)
    with torch.no_grad():
        hidden.mul_(2.0)
    return hidden


def clamp_weights(linear, x):
    with torch.no_grad():
        linear.weight.clamp_(-0.1, 0.1)
    return F.linear(x, linear.weight)


def change_behind_detach(linear, x):
    hidden = linear(x)
    hidden.detach().mul_(2.0)
    return hidden


@pytest.mark.parametrize("function", [change_without_gradient, clamp_weights, change_behind_detach])
def test_a_write_that_autograd_does_not_see_is_refused(function, check_capture):
    with pytest.raises(GraphError, match="writes to a tensor with a gradient"):
        check_capture(Layer(function), torch.randn(4, 6))


def test_an_operator_of_the_user_that_writes_to_its_arguments_is_refused(check_capture):
    def write(linear, x):
        hidden = linear(x)
        torch.ops.meshwright_tests.double_in_place(hidden)
        return hidden

    with pytest.raises(GraphError, match="auto_functionalized"):
        check_capture(Layer(write), torch.randn(4, 6))
