"""Calls of transforms, solvers and products along chosen dims, and their meanings in torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tests.solver.verification.execution.kernel_cases import Case, Torch, case, random, real, whole

T = torch.Tensor


def complex_of(function: Any) -> Torch:
    """A function of complex numbers on pairs of real ones."""
    return lambda x: torch.view_as_real(function(torch.view_as_complex(x.contiguous())))


def from_complex(function: Any) -> Torch:
    return lambda x: function(torch.view_as_complex(x.contiguous()))


def to_complex(function: Any) -> Torch:
    return lambda x: torch.view_as_real(function(x).resolve_conj())


def cosines(size: int, norm: str) -> T:
    """The transform of type 2 as a matrix, by its sum."""
    k, t = (torch.arange(size, dtype=torch.float64) for _ in range(2))
    matrix = 2 * torch.cos(math.pi * k[:, None] * (2 * t + 1) / (2 * size))
    if norm == "ortho":
        matrix = matrix / math.sqrt(2 * size)
        matrix[0] /= math.sqrt(2)
    return matrix


fft = torch.fft

SPECTRAL: list[Case] = [
    *(
        case("fft", real(3, 5, 2), dims=[1], norm=norm, inverse=inverse,
             by=complex_of(lambda x, f=function, n=norm: f(x, dim=1, norm=n)))
        for norm in ("backward", "ortho", "forward")
        for inverse, function in ((False, fft.fft), (True, fft.ifft))
    ),
    case("fft", real(3, 5), dims=[1], by=to_complex(lambda x: fft.fft(x, dim=1))),
    case("fft", real(3, 5, 2), dims=[0], by=complex_of(lambda x: fft.fft(x, n=7, dim=0))),
    case("fft", real(3, 5, 2), dims=[1], by=complex_of(lambda x: fft.fft(x, n=4, dim=1))),
    case("fft", real(2, 4, 3, 2), dims=[-2, -1], by=complex_of(fft.fft2)),
    case("fft", real(2, 4, 3, 2), inverse=True, by=complex_of(fft.ifftn)),
    *(
        case(kind, real(3, n), dims=[1], norm=norm,
             by=to_complex(lambda x, f=function, m=norm: f(x, dim=1, norm=m)))
        for kind, function in (("rfft", fft.rfft), ("ihfft", fft.ihfft))
        for n in (5, 6)
        for norm in ("backward", "ortho")
    ),
    case("rfft", real(3, 5), dims=[1], n=8, by=to_complex(lambda x: fft.rfft(x, n=8, dim=1))),
    case("rfft", real(2, 4, 6), dims=[1, 2], by=to_complex(fft.rfft2)),
    case("ihfft", real(2, 4, 6), by=to_complex(fft.ihfftn)),
    *(
        case(kind, real(3, 4, 2), dims=[1], norm=norm,
             by=from_complex(lambda x, f=function, k=n, m=norm: f(x, n=k, dim=1, norm=m)))
        for kind, function in (("irfft", fft.irfft), ("hfft", fft.hfft))
        for n in (6, 7, 5, 9)
        for norm in ("backward", "ortho")
    ),
    case("irfft", real(2, 4, 3, 2), dims=[1, 2], by=from_complex(fft.irfft2)),
    case("hfft", real(2, 4, 3, 2), by=from_complex(fft.hfftn)),
    *(
        case("dct", real(3, 5), dims=[1], norm=norm, by=lambda x, n=norm: x @ cosines(5, n).T)
        for norm in ("backward", "ortho")
    ),
    case("dct", real(3, 4), norm="ortho",
         by=lambda x: cosines(3, "ortho") @ x @ cosines(4, "ortho").T),
    *(
        case("dct", real(3, 5), dims=[1], norm=norm, inverse=True,
             by=lambda x, n=norm: x @ cosines(5, n).inverse().T)
        for norm in ("backward", "ortho")
    ),
    case("fftshift", real(3, 5), dims=[1], by=lambda x: fft.fftshift(x, 1)),
    case("fftshift", real(3, 5), dims=[0, 1], inverse=True, by=fft.ifftshift),
]  # fmt: skip


def spd(*shape: int) -> np.ndarray:
    root = random.standard_normal((*shape, shape[-1]))
    return root @ np.swapaxes(root, -1, -2) + np.eye(shape[-1])


def triangle(*shape: int) -> np.ndarray:
    return random.standard_normal((*shape, shape[-1])) + 3 * np.eye(shape[-1])


def symmetric_cholesky(x: T, *, upper: bool = False) -> T:
    """The kernel reads the lower half; torch's gradient is spread over both."""
    return torch.linalg.cholesky((x + x.mT) / 2, upper=upper)


def solved(*, upper: bool, **more: Any) -> Torch:
    def run(a: T, b: T) -> T:
        if more.pop("transposed", False):
            return torch.linalg.solve_triangular(
                a.tril().mT if not upper else a.triu().mT, b, upper=not upper
            )
        return torch.linalg.solve_triangular(a, b, upper=upper, **more)

    return run


SYSTEM = real(2, 5, 3)

ALGEBRA: list[Case] = [
    case("cholesky", spd(2, 3), by=symmetric_cholesky),
    case("cholesky", spd(4), upper=True, by=lambda x: symmetric_cholesky(x, upper=True)),
    case("solve_triangular", triangle(2, 3), real(2, 3, 4), lower=True, by=solved(upper=False)),
    case("solve_triangular", triangle(3), real(2, 3, 4), lower=False, by=solved(upper=True)),
    case("solve_triangular", triangle(3), real(3, 4), lower=True, unitriangular=True,
         by=solved(upper=False, unitriangular=True)),
    case("solve_triangular", triangle(2, 3), real(2, 3, 4), lower=True, transposed=True,
         by=lambda a, b: torch.linalg.solve_triangular(a.tril().mT, b, upper=True)),
    case("least_squares", SYSTEM, real(2, 5, 4), by=lambda a, b: torch.linalg.pinv(a) @ b),
    case("least_squares", SYSTEM, real(2, 5, 4), by=lambda a, b: (
        torch.linalg.pinv(a) @ b,
        ((a @ (torch.linalg.pinv(a) @ b) - b) ** 2).sum(-2).detach(),
        torch.linalg.matrix_rank(a),
        torch.linalg.svdvals(a).detach(),
    )),
    *(
        case("cdist", real(2, 3, 4), real(2, 5, 4), p=p, by=lambda x, y, p=p: torch.cdist(x, y, p))
        for p in (2.0, 1.0, 3.0)
    ),
    case("cdist", real(2, 3, 4), real(2, 5, 4), p="inf", by=lambda x, y: torch.cdist(x, y, np.inf)),
    case("cdist", whole(2, 3, 4) * 1.0, whole(2, 5, 4) * 1.0, p=0.0,
         by=lambda x, y: torch.cdist(x, y, 0.0)),
    case("matmul", real(2, 4, 3), real(5, 4), transpose_a=True, transpose_b=True,
         by=lambda a, b: a.mT @ b.mT),
    case("matmul", real(4, 3), real(2, 4, 5), transpose_a=True, by=lambda a, b: a.mT @ b),
    case("outer", real(3), real(4), by=torch.outer),
    case("tensordot", real(2, 3, 4), real(4, 3, 5), dims=[[1, 2], [1, 0]],
         by=lambda a, b: torch.tensordot(a, b, ([1, 2], [1, 0]))),
    case("tensordot", real(3, 2, 4), real(5, 4, 3), dims=[[2, 0], [1, 2]],
         by=lambda a, b: torch.tensordot(a, b, ([2, 0], [1, 2]))),
    case("tensordot", real(2, 3), real(4), dims=[[], []],
         by=lambda a, b: torch.tensordot(a, b, 0)),
]  # fmt: skip

CASES = [*SPECTRAL, *ALGEBRA]
