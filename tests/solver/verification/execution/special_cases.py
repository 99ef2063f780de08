"""Calls of the element-wise kinds beyond those of captured graphs, and their meanings in torch."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.solver.verification.execution.kernel_cases import (
    Case,
    Torch,
    case,
    positive,
    random,
    real,
    truth,
    whole,
)

T = torch.Tensor


def inside(*shape: int):
    return random.uniform(-0.9, 0.9, shape)


def bessel(order: int) -> Torch:
    """J_n(x), the mean of cos(n t - x sin t) over a turn: equal steps are exact for a period."""

    def function(x: T) -> T:
        t = torch.arange(128, dtype=torch.float64) * (2 * math.pi / 128)
        return torch.cos(order * t - x[..., None] * torch.sin(t)).mean(-1)

    return function


def bessel_i(order: int, *, scaled: bool = False) -> Torch:
    """I_n(x), the mean of exp(x cos t) cos(n t)."""

    def function(x: T) -> T:
        t = torch.arange(128, dtype=torch.float64) * (2 * math.pi / 128)
        made = (torch.exp(x[..., None] * torch.cos(t)) * torch.cos(order * t)).mean(-1)
        return made * torch.exp(-x.abs()) if scaled else made

    return function


def beta_share(a: T, b: T, x: T) -> T:
    """The regularised incomplete beta function, by its integral over t = x s.

    Gauss's points are exact here but for 1e-12: a, b >= 1.5 and x < 0.9.
    """
    nodes, weights = np.polynomial.legendre.leggauss(100)
    s = torch.tensor((nodes + 1) / 2) ** 4  # crowded where the integrand has its root
    ds = torch.tensor(2 * (nodes + 1) ** 3 / 4 * weights / 2)
    a, b, t = a.detach()[..., None], b.detach()[..., None], x[..., None] * s
    part = (t ** (a - 1) * (1 - t) ** (b - 1) * ds).sum(-1) * x
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    return part / torch.exp(log_beta[..., 0])


def count_bits(x: T) -> T:
    return sum(((x >> bit) & 1) for bit in range(64))


def with_channel(x: T, w: T) -> T:
    return w.reshape([-1 if d == 1 else 1 for d in range(x.ndim)])


def damaged(x: T, place: int, factor: float) -> T:
    factors = torch.ones(x.numel(), dtype=x.dtype)
    factors[place] = factor
    return x * factors.reshape(x.shape)


def zero_where(y: T, value: T) -> T:
    return torch.where(y == 0, 0.0, value)


UNARY: list[Case] = [
    *(
        case(kind, inside(3, 4), by=getattr(torch, kind))
        for kind in ("acos", "asin", "atanh", "erfinv")
    ),
    *(
        case(kind, 2 * real(3, 4), by=getattr(torch, kind))
        for kind in ("atan", "asinh", "cosh", "sinh", "erfc", "trunc", "isfinite")
    ),
    case("acosh", 1 + positive(3, 4), by=torch.acosh),
    case("lgamma", positive(3, 4), by=torch.lgamma),
    *(case(f"bessel_j{n}", 3 * real(3, 4), by=bessel(n)) for n in (0, 1)),
    *(case(f"bessel_i{n}", 2 * real(3, 4), by=bessel_i(n)) for n in (0, 1)),
    *(case(f"bessel_i{n}e", 2 * real(3, 4), by=bessel_i(n, scaled=True)) for n in (0, 1)),
    case("relu6", 4 * real(30), by=F.relu6),
    case("selu", real(9), by=F.selu),
    case("softsign", real(9), by=F.softsign),
    case("softshrink", real(9), by=F.softshrink),
    case("softshrink", real(9), lambd=0.2, by=lambda x: F.softshrink(x, 0.2)),
    case("hardshrink", real(9), by=F.hardshrink),
    case("nan_to_num", np.array([1.0, np.nan, np.inf, -np.inf]), by=torch.nan_to_num),
    case(
        "nan_to_num", np.array([1.0, np.nan, np.inf, -np.inf]), nan=1.0, posinf=2.0, neginf=-3.0,
        by=lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0),
    ),
    case("population_count", np.array([0, 1, 255, -1, 2**40 + 5]), by=count_bits),
    case("full_like", real(2, 3), value=1, by=torch.ones_like),
    case("full_like", whole(5, 4), by=torch.zeros_like),
    case("gelu", 2 * real(9), approximate="sigmoid", by=lambda x: x * torch.sigmoid(1.702 * x)),
    case("dropout", real(2, 3), by=lambda x: (x, torch.ones_like(x, dtype=torch.bool))),
]  # fmt: skip

BINARY: list[Case] = [
    case("atan2", real(3, 4), real(4), by=torch.atan2),
    case("hypot", real(3, 1), real(4), by=torch.hypot),
    case("squared_difference", real(3, 4), real(4), by=lambda x, y: (x - y) ** 2),
    *(case("remainder", 5 * real(3, 4), y, by=torch.remainder) for y in (real(4), positive(3, 1))),
    case("remainder", 5 * real(9), other=1.7, by=lambda x: torch.remainder(x, 1.7)),
    case("remainder", positive(9), self=5.0, by=lambda y: 5.0 - torch.floor(5.0 / y) * y),
    case("remainder", whole(30, 9) - 15, 1 + whole(5, 9), by=torch.remainder),
    case("fmod", 5 * real(3, 4), real(4), by=torch.fmod),
    case("fmod", 5 * real(9), other=1.7, by=lambda x: torch.fmod(x, 1.7)),
    case("fmod", whole(30, 9) - 15, 1 + whole(5, 9), by=torch.fmod),
    *(
        case(kind, x, y, by=lambda x, y, m=mode: torch.div(x, y, rounding_mode=m))
        for kind, mode in (("floor_div", "floor"), ("trunc_div", "trunc"))
        for x, y in ((5 * real(9), real(9)), (whole(30, 9) - 15, 1 + whole(5, 9)))
    ),
    case(
        "div_no_nan", real(3, 3), np.array([1.0, 0.0, -2.0]),
        by=lambda x, y: zero_where(y, x / torch.where(y == 0, 1.0, y)),
    ),
    case("mul_no_nan", real(3, 3), real(3), by=torch.mul),
    case("xlogy", real(3, 4), positive(4), by=torch.xlogy),
    case("xlogy", np.zeros(3), positive(3), by=torch.xlogy),
    case("xdivy", real(3, 4), positive(4), by=lambda x, y: x / y),
    case("betainc", 1.5 + positive(3, 1), 1.5 + positive(4), random.uniform(0.1, 0.9, (3, 4)),
         by=beta_share),
    case("igamma", positive(3, 1), positive(4),
         by=lambda a, x: torch.special.gammainc(a.detach(), x)),
    case("igammac", positive(3, 1), positive(4),
         by=lambda a, x: torch.special.gammaincc(a.detach(), x)),
    case("zeta", 1 + positive(3, 1), positive(4),
         by=lambda x, q: torch.special.zeta(x.detach(), q)),
    case(
        "sigmoid_cross_entropy", 3 * real(3, 4), real(3, 4),
        by=lambda x, z: -(z * F.logsigmoid(x) + (1 - z) * F.logsigmoid(-x)),
    ),
    case("gcd", whole(60, 3, 4), whole(60, 4), by=torch.gcd),
    case("left_shift", whole(60, 3, 4), whole(9, 4), by=torch.bitwise_left_shift),
    case("right_shift", whole(600, 4), whole(9, 4), by=torch.bitwise_right_shift),
    case("nextafter", real(4), real(4), by=lambda x, y: torch.nextafter(x.detach(), y.detach())),
    case(
        "isclose", np.array([1.0, 1.0, np.nan, np.inf]), np.array([1 + 1e-7, 1.1, np.nan, np.inf]),
        by=lambda x, y: torch.isclose(x, y, rtol=1e-5, atol=1e-8),
    ),
    case(
        "isclose", np.array([1.0, np.nan]), np.array([1.4, np.nan]), equal_nan=True, rtol=0.5,
        by=lambda x, y: torch.isclose(x, y, rtol=0.5, equal_nan=True),
    ),
    case("addcmul", real(2, 3), real(3), real(2, 1), value=0.7,
         by=lambda x, a, b: torch.addcmul(x, a, b, value=0.7)),
    case("lerp", real(2, 3), real(3), real(2, 3), by=torch.lerp),
    case("lerp", real(2, 3), real(2, 3), weight=0.3, by=lambda a, b: torch.lerp(a, b, 0.3)),
]  # fmt: skip

OTHERS: list[Case] = [
    case("assign", real(2, 3), real(3), by=lambda _, y: y.expand(2, 3)),
    case("bias_add", real(2, 3, 4), real(3), by=lambda x, b: x + with_channel(x, b)),
    case("bias_add", real(2, 3), real(3), by=torch.add),
    case("bias_add", real(2, 3, 4), real(4), dim=-1, by=torch.add),
    case("prelu", real(2, 3, 4), real(3), by=F.prelu),
    case("prelu", real(2, 3), real(1), by=F.prelu),
    case("swiglu", real(2, 6), dim=-1, by=lambda x: F.silu(x[:, :3]) * x[:, 3:]),
    case("swiglu", real(4, 3), dim=0, by=lambda x: F.silu(x[:2]) * x[2:]),
    case("polar", positive(3, 2), real(3, 2),
         by=lambda r, a: torch.view_as_real(torch.polar(r, a))),
    case("dropout_mask", real(2, 3), truth(2, 3), keep_prob=0.5, by=lambda x, m: x * m / 0.5),
    case(
        "fault_injection", real(2, 3), np.array(4), np.array(5), np.array(0), np.array(0),
        start=0, steps=[5], error_mode="cycle", flip_mode="multiply", multiply_factor=3.0,
        by=lambda x, *_: damaged(x, 4, 3.0),
    ),
    case(
        "fault_injection", real(2, 3), np.array(1), np.array(3), np.array(0), np.array(0),
        start=1, steps=[2], error_mode="specific", flip_mode="bitflip",
        by=lambda x, *_: damaged(x, 1, -1.0),
    ),
    case(
        "fault_injection", real(2, 3), np.array(1), np.array(4), np.array(0), np.array(0),
        start=1, steps=[2], error_mode="cycle", by=lambda x, *_: damaged(x, 1, 1.0),
    ),
]  # fmt: skip

CASES = [*UNARY, *BINARY, *OTHERS]
