"""Fourier and cosine transforms; a complex array is an array of pairs in a last dim of two.

All kinds are linear maps over the real numbers, so a gradient is the adjoint map of the output's
gradient. With F the sums sum_t x_t exp(-2 pi i k t / n), scaled by attrs `norm`:

    adjoint of F            the inverse sums, scaled like F
    of a real input         the real part of that
    of a real output        F itself, twice for every k that stands for k and n - k
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import fft as transforms

from meshwright_solver.verification.execution.kernels.call import Array, KernelCall
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]

# norm of the inverse sums -> norm of the forward sums with the same scale
_OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _to_pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], axis=-1)


def _complex(x: Array) -> Array:
    return np.asarray(x[..., 0] + 1j * x[..., 1])


def _norm(call: KernelCall) -> str:
    return str(call.attrs.get("norm") or "backward")


def _dims(call: KernelCall, rank: int) -> list[int]:
    dims = call.attrs.get("dims")
    return [int(d) % rank for d in (range(rank) if dims is None else dims)]


def _resize(x: Array, dim: int, size: int) -> Array:
    """Cut or zero-padded at the end."""
    cut = np.take(x, range(min(size, x.shape[dim])), axis=dim)
    room = [(0, max(0, size - x.shape[dim])) if d == dim else (0, 0) for d in range(x.ndim)]
    return np.pad(cut, room)


def _sums(x: Array, dim: int, norm: str, *, inverse: bool) -> Array:
    function = transforms.ifft if inverse else transforms.fft
    return np.asarray(function(x, axis=dim, norm=norm))


def _adjoint(x: Array, dim: int, norm: str, *, inverse: bool) -> Array:
    return _sums(x, dim, _OTHER_WAY[norm], inverse=not inverse)


def _fft(call: KernelCall) -> Array:
    rank = len(call.shape) - 1
    x = _complex(call.x) if call.x.ndim > rank else call.x.astype(np.complex128)
    for dim in _dims(call, rank):
        inverse = bool(call.attrs.get("inverse", False))
        x = _sums(_resize(x, dim, call.shape[dim]), dim, _norm(call), inverse=inverse)
    return _to_pairs(x)


def _fft_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    rank = len(call.shape) - 1
    g = _complex(sent[0])
    for dim in _dims(call, rank):
        inverse = bool(call.attrs.get("inverse", False))
        g = _resize(_adjoint(g, dim, _norm(call), inverse=inverse), dim, call.x.shape[dim])
    return (_to_pairs(g) if call.x.ndim > rank else g.real,)


def _from_real(
    x: Array, dims: Sequence[int], output_shape: Sequence[int], n: int, norm: str
) -> Array:
    """Real [.., n'] to the first half of its complex sums; the last of dims is the real one.

    n: the length of the transform there, which the half does not determine.
    """
    *rest, last = dims
    y = _sums(_resize(x, last, n).astype(np.complex128), last, norm, inverse=False)
    y = _resize(y, last, output_shape[last])
    for dim in rest:
        y = _sums(_resize(y, dim, output_shape[dim]), dim, norm, inverse=False)
    return y


def _from_real_adjoint(
    g: Array, dims: Sequence[int], input_shape: Sequence[int], n: int, norm: str
) -> Array:
    *rest, last = dims
    for dim in rest:
        g = _resize(_adjoint(g, dim, norm, inverse=False), dim, input_shape[dim])
    g = _adjoint(_resize(g, last, n), last, norm, inverse=False)
    return _resize(g.real, last, input_shape[last])


def _to_real(x: Array, dims: Sequence[int], output_shape: Sequence[int], norm: str) -> Array:
    """Half of a symmetric array to real numbers, by the inverse sums."""
    *rest, last = dims
    for dim in rest:
        x = _sums(_resize(x, dim, output_shape[dim]), dim, norm, inverse=True)
    return np.asarray(transforms.irfft(x, n=output_shape[last], axis=last, norm=norm))


def _to_real_adjoint(g: Array, dims: Sequence[int], input_shape: Sequence[int], norm: str) -> Array:
    *rest, last = dims
    n = g.shape[last]
    y = np.asarray(transforms.rfft(g, axis=last, norm=_OTHER_WAY[norm]))
    k = np.arange(n // 2 + 1)
    twice = np.where((k == 0) | (2 * k == n), 1.0, 2.0)
    y = y * twice.reshape([-1 if d == last else 1 for d in range(y.ndim)])
    y = _resize(y, last, input_shape[last])
    for dim in rest:
        y = _resize(_adjoint(y, dim, norm, inverse=True), dim, input_shape[dim])
    return y


def _length(call: KernelCall, half: int) -> int:
    """The length of a transform with `half` numbers in its half; the input's length if it fits."""
    dim = _dims(call, call.x.ndim)[-1]
    size = call.x.shape[dim]
    return size if size // 2 + 1 == half else int(call.number("n", 2 * (half - 1)))


def _half(call: KernelCall) -> Array:
    """rfft, and ihfft: its conjugate, scaled the other way."""
    symmetric = call.kind == "ihfft"
    norm = _OTHER_WAY[_norm(call)] if symmetric else _norm(call)
    dims = _dims(call, call.x.ndim)
    n = _length(call, call.shape[dims[-1]])
    y = _from_real(call.x, dims, call.shape[:-1], n, norm)
    return _to_pairs(y.conj() if symmetric else y)


def _half_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    symmetric = call.kind == "ihfft"
    norm = _OTHER_WAY[_norm(call)] if symmetric else _norm(call)
    g = _complex(sent[0])
    dims = _dims(call, call.x.ndim)
    n = _length(call, call.shape[dims[-1]])
    return (_from_real_adjoint(g.conj() if symmetric else g, dims, call.x.shape, n, norm),)


def _back(call: KernelCall) -> Array:
    """irfft, and hfft: of the conjugate, scaled the other way."""
    symmetric = call.kind == "hfft"
    norm = _OTHER_WAY[_norm(call)] if symmetric else _norm(call)
    x = _complex(call.x)
    return _to_real(x.conj() if symmetric else x, _dims(call, len(call.shape)), call.shape, norm)


def _back_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    symmetric = call.kind == "hfft"
    norm = _OTHER_WAY[_norm(call)] if symmetric else _norm(call)
    g = _to_real_adjoint(sent[0], _dims(call, len(call.shape)), call.x.shape[:-1], norm)
    return (_to_pairs(g.conj() if symmetric else g),)


def _cosines(call: KernelCall, size: int) -> Array:
    """The matrix of one dim's cosine transform of type 2, or its inverse."""
    function: Callable[..., Array] = (
        transforms.idct if call.attrs.get("inverse") else transforms.dct
    )
    return np.asarray(function(np.eye(size), type=2, axis=0, norm=_norm(call)))


def _along(x: Array, dim: int, matrix: Array) -> Array:
    return np.moveaxis(np.tensordot(matrix, x, axes=(1, dim)), 0, dim)


def _dct(call: KernelCall) -> Array:
    x = call.x
    for dim in _dims(call, x.ndim):
        x = _along(_resize(x, dim, call.shape[dim]), dim, _cosines(call, call.shape[dim]))
    return x


def _dct_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    g = sent[0]
    for dim in _dims(call, g.ndim):
        g = _resize(_along(g, dim, _cosines(call, call.shape[dim]).T), dim, call.x.shape[dim])
    return (g,)


def _shift(call: KernelCall, x: Array, *, back: bool) -> Array:
    inverse = bool(call.attrs.get("inverse", False)) != back
    dims = _dims(call, x.ndim)
    halves = [x.shape[d] // 2 for d in dims]
    return np.roll(x, [-n if inverse else n for n in halves], axis=tuple(dims))


def _shift_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_shift(call, sent[0], back=True),)


SPECTRAL: Mapping[str, OpKernel] = {
    "fft": OpKernel(_fft, _fft_gradients),
    **{kind: OpKernel(_half, _half_gradients) for kind in ("rfft", "ihfft")},
    **{kind: OpKernel(_back, _back_gradients) for kind in ("irfft", "hfft")},
    "dct": OpKernel(_dct, _dct_gradients),
    "fftshift": OpKernel(lambda call: _shift(call, call.x, back=False), _shift_gradients),
}
