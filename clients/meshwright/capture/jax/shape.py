"""Converters of primitives that move elements or create arrays."""

from __future__ import annotations

from meshwright.capture.node_arithmetic import plain
from meshwright.capture.node_call import Converter, NodeCall


def _reshape(call: NodeCall) -> None:
    if call.attrs.get("dimensions") is not None:
        return call.unknown()
    return call.op("reshape", [call.x])


def _squeeze(call: NodeCall) -> None:
    call.op("reshape", [call.x])


def _transpose(call: NodeCall) -> None:
    call.op("transpose", [call.x], dims=list(call.attrs["permutation"]))


def _group(call: NodeCall) -> None:
    """The begin or the end of a group dim (`meshwright.capture.jax.shard_maps`)."""
    call.op("identity", [call.x], **call.attrs)


def _broadcast(call: NodeCall) -> None:
    """A reshape that inserts dims of one, then an expand."""
    number = call.scalar(0)
    if number is not None:
        return call.op("full", [], value=plain(number))
    places = call.attrs["broadcast_dimensions"]
    unsqueezed = [1] * call.out.rank
    for size, place in zip(call.x.shape, places, strict=True):
        unsqueezed[place] = size
    if tuple(unsqueezed) == call.out.shape:
        return call.op("reshape", [call.x])
    source = call.x
    if source.shape != tuple(unsqueezed):
        source = call.step("reshape", [source], unsqueezed)
    return call.op("expand", [source])


def _concat(call: NodeCall) -> None:
    values = call.present(*range(len(call.inputs)))
    if len(values) == 1:
        return call.alias(values[0])
    return call.op("concat", values, dim=call.attrs["dimension"])


def _split(call: NodeCall) -> None:
    call.op(
        "split", [call.x], dim=call.attrs["axis"], sizes=[int(size) for size in call.attrs["sizes"]]
    )


def _slice(call: NodeCall) -> None:
    """A strided slice as one slice per dim."""
    rank = call.x.rank
    starts, ends = call.attrs["start_indices"], call.attrs["limit_indices"]
    steps = call.attrs["strides"] or [1] * rank
    value = call.x
    for dim in range(rank):
        start, end, step = starts[dim], ends[dim], steps[dim]
        if (start, end, step) == (0, value.shape[dim], 1):
            continue
        shape = [*value.shape]
        shape[dim] = -(-(end - start) // step)
        value = call.step("slice", [value], shape, dim=dim, start=start, end=end, step=step)
    call.alias(value)


def _pad(call: NodeCall) -> None:
    value, config = call.scalar(1), call.attrs["padding_config"]
    if value is None or any(a < 0 or b < 0 or inner for a, b, inner in config):
        return call.unknown()
    pads = [[a, b] for a, b, _ in config]
    return call.op("pad", [call.x], pads=pads, mode="constant", value=plain(value))


def _flip(call: NodeCall) -> None:
    call.op("flip", [call.x], dims=list(call.attrs["dimensions"]))


def _iota(call: NodeCall) -> None:
    """iota: a range along one dim, expanded to the shape."""
    dim, shape = call.attrs["dimension"], call.out.shape
    if len(shape) == 1:
        return call.op("arange", [], start=0, end=shape[0], step=1)
    numbers = call.step("arange", [], [shape[dim]], call.out.dtype, start=0, end=shape[dim], step=1)
    unsqueezed = [size if place == dim else 1 for place, size in enumerate(shape)]
    if tuple(unsqueezed) == shape:
        return call.op("reshape", [numbers])
    return call.op("expand", [call.step("reshape", [numbers], unsqueezed)])


CONVERTERS: dict[str, Converter] = {
    "reshape": _reshape,
    "meshwright_group": _group,
    "squeeze": _squeeze,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "concatenate": _concat,
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "rev": _flip,
    "iota": _iota,
}
