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


def _cut(call: KernelCall) -> tuple[slice, ...]:
    """Where a slice lies: as the attrs say, or, where the sizes have changed, the same part.

    The part is counted in lengths of the slice; one that does not exist any more is the first.
    """
    place = []
    for d, (size, kept) in enumerate(zip(call.x.shape, call.shape, strict=True)):
        own = call.attrs.get("dim") is None or int(call.attrs["dim"]) % call.x.ndim == d
        start = int(call.number("start", 0)) if own else 0
        step = int(call.number("step", 1)) if own else 1
        if start + (kept - 1) * step >= size or start < 0:
            length = int(call.number("end", start + kept)) - start
            start = start // length * kept if length > 0 and start > 0 else 0
            if start + kept > size:
                start = 0
            step = min(step, (size - 1) // max(1, kept - 1)) or 1
        place.append(slice(start, start + (kept - 1) * step + 1, step))
    return tuple(place)


def _slice(call: KernelCall) -> Array:
    return call.x[_cut(call)]


def _slice_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    whole = np.zeros(call.x.shape)
    whole[_cut(call)] = sent[0]
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
        np.split(sent[0], np.cumsum([own.shape[dim] for own in call.inputs])[:-1], axis=dim)
    )


def _stack(call: KernelCall) -> Array:
    return np.stack(call.inputs, axis=call.dim(0, rank=call.x.ndim + 1))


def _stack_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    moved = np.moveaxis(sent[0], call.dim(0, rank=call.x.ndim + 1), 0)
    return tuple(moved)


_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded_from(call: KernelCall) -> tuple[Array, ...]:
    """For every dim, from which place of the input each place of the output is; -1: from none."""
    places = []
    mode: Any = _MODES.get(str(call.attrs.get("mode", "constant")))
    pads = call.attrs.get("pads") or [[0, 0]] * call.x.ndim
    for size, made, pair in zip(call.x.shape, call.shape, pads, strict=True):
        before, behind = (int(read_number(own, 0)) for own in pair)
        if size + before + behind != made:
            before = int(np.clip(before, min(0, made - size), max(0, made - size)))
            behind = made - size - before
        kept = np.arange(max(0, -before), size - max(0, -behind))
        room = (max(0, before), max(0, behind))
        if mode is None:
            places.append(np.pad(kept, room, constant_values=-1))
        else:
            places.append(np.pad(kept, room, mode=mode))
    return tuple(places)


def _pad(call: KernelCall) -> Array:
    places = _padded_from(call)
    made = call.x[np.ix_(*places)] if places else call.x.copy()
    if any((own < 0).any() for own in places):
        outside = np.ones(call.shape, dtype=np.bool_)
        outside[np.ix_(*(own >= 0 for own in places))] = False
        made[outside] = call.number("value", 0.0)
    return made


def _pad_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    places = _padded_from(call)
    inside = [own >= 0 for own in places]
    whole = np.zeros(call.x.shape)
    kept = [own[there] for own, there in zip(places, inside, strict=True)]
    np.add.at(whole, np.ix_(*kept), sent[0][np.ix_(*inside)])
    return (whole,)


def _dims_of(call: KernelCall) -> list[int] | None:
    given = call.attrs.get("dims", call.attrs.get("dim", -1))
    return None if given is None or given == [] else list(np.atleast_1d(given))


def _rolled(call: KernelCall, x: Array, *, direction: int) -> Array:
    given = np.atleast_1d(call.attrs.get("shifts", 1))
    shifts = [direction * int(read_number(own, 0)) for own in given.tolist()]
    dims = _dims_of(call)
    return np.roll(x, shifts[0]) if dims is None else np.roll(x, shifts, axis=tuple(dims))


def _roll(call: KernelCall) -> Array:
    return _rolled(call, call.x, direction=1)


def _roll_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    return (_rolled(call, sent[0], direction=-1),)


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
        own for full, size in zip(call.shape, sizes, strict=True) for own in (full // size, size)
    ]
    summed = sent[0].reshape(cut).sum(axis=tuple(range(0, len(cut), 2)))
    return (summed.reshape(call.x.shape),)


def _repeated_from(call: KernelCall) -> tuple[int, Array, Array]:
    """The dim, the input with it, and from which place of it each place of the output is.

    Counts that do not come to the output's length, since they were made up, are equal ones.
    """
    flat = call.attrs.get("dim") is None
    x = call.x.reshape(-1) if flat else call.x
    dim = 0 if flat else call.dim(0)
    size, made = x.shape[dim], call.shape[dim]
    counts = call.optional(1)
    if counts is not None and counts.size == size and counts.sum() == made:
        return dim, x, np.repeat(np.arange(size), counts)
    return dim, x, np.arange(made) * size // made


def _repeat(call: KernelCall) -> Array:
    dim, x, places = _repeated_from(call)
    return np.take(x, places, axis=dim)


def _repeat_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    dim, x, places = _repeated_from(call)
    found = np.zeros(x.shape)
    where: Any = (*(slice(None),) * dim, places)
    np.add.at(found, where, sent[0])
    return (found.reshape(call.x.shape),)


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
