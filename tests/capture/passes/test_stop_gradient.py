"""Stopped gradients: detached values between a parameter and the loss, and no others."""

import torch
from torch.nn import functional as F


class Quantized(torch.nn.Module):
    """The nearest code of each row, with the gradient passed straight through."""

    def __init__(self):
        super().__init__()
        self.encode, self.codes = torch.nn.Linear(6, 4), torch.nn.Parameter(torch.randn(5, 4))

    def forward(self, x):
        z = self.encode(x)
        distances = z.pow(2).sum(1, keepdim=True) - 2 * z @ self.codes.T + self.codes.pow(2).sum(1)
        nearest = F.embedding(distances.argmin(1), self.codes)
        commitment = F.mse_loss(z, nearest.detach()) + F.mse_loss(nearest, z.detach())
        return (z + (nearest - z).detach()).sin().mean() + commitment


class Target(torch.nn.Module):
    """A target from the same weights, without a gradient."""

    def __init__(self):
        super().__init__()
        self.online, self.head = torch.nn.Linear(6, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            target = self.head(self.online(x)).softmax(-1)
        return -(target * self.head(self.online(x)).log_softmax(-1)).sum(-1).mean()


class Positions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(6))
        self.scale = torch.nn.Parameter(torch.randn(6))

    def forward(self, x):
        with torch.no_grad():
            angles = (x * self.table).sin()
        return (angles.detach() * self.scale).mean()


def stops(graph):
    return sum(op.kind == "stop_gradient" for op in graph.ops)


def test_detached_values_stop_the_gradient(check_capture):
    assert stops(check_capture(Quantized(), torch.randn(3, 6))) == 3


def test_a_region_without_gradients_stops_them(check_capture):
    assert stops(check_capture(Target(), torch.randn(3, 6))) == 1


def test_values_without_a_parameter_need_no_stop(check_capture):
    assert stops(check_capture(Positions(), torch.randn(3, 6))) == 0


class Rotation(torch.nn.Module):
    """A product with detached values that were complex numbers."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x):
        pairs = self.linear(x).reshape(-1, 3, 2)
        return (pairs * torch.view_as_real(torch.view_as_complex(pairs)).detach()).mean()


def test_complex_numbers_pass_the_gradient_to_a_stop(check_capture):
    assert stops(check_capture(Rotation(), torch.randn(3, 6))) == 1
