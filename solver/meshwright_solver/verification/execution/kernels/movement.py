"""Kinds that move, cut and join elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    read_number,
    reduced_to,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel

Gradients = tuple[Array | None, ...]


def _reshape(call: KernelCall) -> Array:
    return call.x.reshape(call.shape)


def _reshape_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (sent[0].reshape(call.x.shape),)


def _transpose(call: KernelCall) -> Array:
    return call.x.transpose(call.attrs["dims"])


def _transpose_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dims = [int(d) % call.x.ndim for d in call.attrs["dims"]]
    return (sent[0].transpose(np.argsort(dims)),)


def _expand(call: KernelCall) -> Array:
    return np.broadcast_to(call.x, call.shape)


def _expand_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (reduced_to(call.x.shape, sent[0]),)


def _cut(call: KernelCall) -> tuple[Any, ...]:
    """The place of a slice: that of the attrs, or the same part where the sizes have changed.

    The part is counted in lengths of the slice. A part beyond the end becomes the first one, and a
    slice that is longer than its scaled-down dim starts over at the dim's end.
    """
    place = []
    if any(count > size for size, count in zip(call.x.shape, call.shape, strict=True)):
        return np.ix_(
            *(np.arange(n) % size for size, n in zip(call.x.shape, call.shape, strict=True))
        )
    for d, (size, count) in enumerate(zip(call.x.shape, call.shape, strict=True)):
        is_sliced = call.attrs.get("dim") is None or int(call.attrs["dim"]) % call.x.ndim == d
        start = int(call.number("start", 0)) if is_sliced else 0
        step = int(call.number("step", 1)) if is_sliced else 1
        if start + (count - 1) * step >= size or start < 0:
            length = int(call.number("end", start + count)) - start
            start = start // length * count if length > 0 and start > 0 else 0
            if start + count > size:
                start = 0
            step = min(step, (size - 1) // max(1, count - 1)) or 1
        place.append(slice(start, start + (count - 1) * step + 1, step))
    return tuple(place)


def _slice(call: KernelCall) -> Array:
    return np.asarray(call.x[_cut(call)])


def _slice_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    whole = np.zeros(call.x.shape)
    np.add.at(whole, _cut(call), sent[0])
    return (whole,)


def _split(call: KernelCall) -> list[Array]:
    dim = call.dim(0)
    ends = np.cumsum([shape[dim] for shape in call.output_shapes])
    return np.split(call.x, ends[:-1], axis=dim)


def _split_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (np.concatenate(list(sent), axis=call.dim(0)),)


def _concat(call: KernelCall) -> Array:
    return np.concatenate(call.inputs, axis=call.dim(0))


def _concat_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dim = call.dim(0)
    return tuple(
        np.split(sent[0], np.cumsum([array.shape[dim] for array in call.inputs])[:-1], axis=dim)
    )


def _stack(call: KernelCall) -> Array:
    return np.stack(call.inputs, axis=call.dim(0, rank=call.x.ndim + 1))


def _stack_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    moved = np.moveaxis(sent[0], call.dim(0, rank=call.x.ndim + 1), 0)
    return tuple(moved)


_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_sources(call: KernelCall) -> tuple[Array, ...]:
    """For every dim, the input place of each output place; -1 for none."""
    places = []
    mode: Any = _MODES.get(str(call.attrs.get("mode", "constant")))
    pads = call.attrs.get("pads") or [[0, 0]] * call.x.ndim
    for size, padded, pair in zip(call.x.shape, call.shape, pads, strict=True):
        before, behind = (int(read_number(number, 0)) for number in pair)
        if size + before + behind != padded:
            before = int(np.clip(before, min(0, padded - size), max(0, padded - size)))
            behind = padded - size - before
        inside = np.arange(max(0, -before), size - max(0, -behind))
        room = (max(0, before), max(0, behind))
        if mode is None:
            places.append(np.pad(inside, room, constant_values=-1))
        else:
            places.append(np.pad(inside, room, mode=mode))
    return tuple(places)


def _pad(call: KernelCall) -> Array:
    places = _pad_sources(call)
    padded = call.x[np.ix_(*places)] if places else call.x.copy()
    if any((source < 0).any() for source in places):
        outside = np.ones(call.shape, dtype=np.bool_)
        outside[np.ix_(*(source >= 0 for source in places))] = False
        padded[outside] = call.number("value", 0.0)
    return padded


def _pad_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    places = _pad_sources(call)
    inside = [source >= 0 for source in places]
    whole = np.zeros(call.x.shape)
    sources = [source[there] for source, there in zip(places, inside, strict=True)]
    np.add.at(whole, np.ix_(*sources), sent[0][np.ix_(*inside)])
    return (whole,)


def _dims_of(call: KernelCall) -> list[int] | None:
    dims = call.attrs.get("dims", call.attrs.get("dim", -1))
    return None if dims is None or dims == [] else list(np.atleast_1d(dims))


def _roll_by(call: KernelCall, x: Array, *, direction: int) -> Array:
    counts = np.atleast_1d(call.attrs.get("shifts", 1))
    shifts = [direction * int(read_number(count, 0)) for count in counts.tolist()]
    dims = _dims_of(call)
    return np.roll(x, shifts[0]) if dims is None else np.roll(x, shifts, axis=tuple(dims))


def _roll(call: KernelCall) -> Array:
    return _roll_by(call, call.x, direction=1)


def _roll_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_roll_by(call, sent[0], direction=-1),)


def _flip(call: KernelCall) -> Array:
    return np.flip(call.x, tuple(_dims_of(call) or ()))


def _flip_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (np.flip(sent[0], tuple(_dims_of(call) or ())),)


def _lower(call: KernelCall) -> Array:
    return np.tril(call.x, int(call.number("diagonal", 0)))


def _lower_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (np.tril(sent[0], int(call.number("diagonal", 0))),)


def _upper(call: KernelCall) -> Array:
    return np.triu(call.x, int(call.number("diagonal", 0)))


def _upper_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (np.triu(sent[0], int(call.number("diagonal", 0))),)


def _tile(call: KernelCall) -> Array:
    lead = len(call.shape) - call.x.ndim
    sizes = (*[1] * lead, *call.x.shape)
    return np.tile(call.x, [full // size for full, size in zip(call.shape, sizes, strict=True)])


def _tile_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    sizes = (*[1] * (len(call.shape) - call.x.ndim), *call.x.shape)
    cut = [
        length
        for full, size in zip(call.shape, sizes, strict=True)
        for length in (full // size, size)
    ]
    summed = sent[0].reshape(cut).sum(axis=tuple(range(0, len(cut), 2)))
    return (summed.reshape(call.x.shape),)


def _repeat_sources(call: KernelCall) -> tuple[int, Array, Array]:
    """The dim, the input with that dim, and the input place of each output place.

    Random counts that do not sum to the output's length are replaced by equal ones.
    """
    flat = call.attrs.get("dim") is None
    x = call.x.reshape(-1) if flat else call.x
    dim = 0 if flat else call.dim(0)
    size, length = x.shape[dim], call.shape[dim]
    counts = call.optional(1)
    if counts is not None and counts.size == size and counts.sum() == length:
        return dim, x, np.repeat(np.arange(size), counts)
    return dim, x, np.arange(length) * size // length


def _repeat(call: KernelCall) -> Array:
    dim, x, places = _repeat_sources(call)
    return np.take(x, places, axis=dim)


def _repeat_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dim, x, places = _repeat_sources(call)
    gradient = np.zeros(x.shape)
    where: Any = (*(slice(None),) * dim, places)
    np.add.at(gradient, where, sent[0])
    return (gradient.reshape(call.x.shape),)


def _identity_gradients(
    _call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return tuple(sent)


MOVEMENT: Mapping[str, OpKernel] = {
    "tile": OpKernel(_tile, _tile_gradients),
    "repeat_interleave": OpKernel(_repeat, _repeat_gradients),
    "identity": OpKernel(lambda call: call.inputs, _identity_gradients),
    "reshape": OpKernel(_reshape, _reshape_gradients),
    "transpose": OpKernel(_transpose, _transpose_gradients),
    "expand": OpKernel(_expand, _expand_gradients),
    "slice": OpKernel(_slice, _slice_gradients),
    "split": OpKernel(_split, _split_gradients),
    "concat": OpKernel(_concat, _concat_gradients),
    "stack": OpKernel(_stack, _stack_gradients),
    "pad": OpKernel(_pad, _pad_gradients),
    "roll": OpKernel(_roll, _roll_gradients),
    "flip": OpKernel(_flip, _flip_gradients),
    "tril": OpKernel(_lower, _lower_gradients),
    "triu": OpKernel(_upper, _upper_gradients),
}
