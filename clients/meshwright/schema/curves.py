"""Curves: how far shares of peak are reached by shape and by message size, device by device."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from meshwright.schema.model import Line, Model, Number


class Constant(Model):
    """A number and what is known of it. spread: the standard deviation of its logarithm."""

    value: Number = Field(gt=0)
    spread: Number = Field(ge=0)
    source: Line


class ProductCurve(Model):
    """Products of matrices, `groups` of m x k by k x n each.

    share: of peak, by large ones. eight_bit: of that share, by 8-bit numbers. half_tile: rows, and
    columns, that a group takes beyond its own. fill: elements of the result that take their time
    but bring nothing, while multiprocessors fill and empty. half_depth: the same of k, in numbers
    of 16 bits; in that time twice as many of 8 bits are done. unhidden: share of the shorter of
    arithmetic and memory traffic that the longer does not hide.
    """

    share: Constant
    eight_bit: Constant
    half_tile: Constant
    fill: Constant
    half_depth: Constant
    unhidden: Constant


class AttentionCurve(Model):
    """Fused attention. share: of peak, forward, of long sequences at head dimension 128.

    backward: of that share. half_head, half_rows: head dimension and queries of a sequence at which
    half of the rate is reached.
    """

    share: Constant
    backward: Constant
    half_head: Constant
    half_rows: Constant


class Protocol(Model):
    """One way in which a library sends; of several it takes the fastest.

    start_ns: before the first step; start_between_ns: more of it, until what goes once through
    several nodes, as gathers do and all-reduces twice, is under way. step: of a link's own latency,
    what one step takes. share: of the bandwidth of links inside a node. step_between,
    share_between: of links between nodes.
    """

    name: Line
    start_ns: Constant
    start_between_ns: Constant
    step: Constant
    step_between: Constant
    share: Constant
    share_between: Constant


class CollectiveCurve(Model):
    """What one kind of collective takes beside what its protocols say.

    name: all_reduce and so on. start: of its latencies; slope: of its time a byte.
    """

    name: Line
    start: Constant
    slope: Constant


class DeviceCurves(Model):
    """All of one device, and of the links and the library that come with it.

    flops_per_s: its 16-bit peak, by which the nearest of others is found. relative: the device
    whose curves these are, where its own were never measured. memory: share of the bandwidth that
    memory-bound ops reach. in_switch: of a link's bandwidth, what all-reduces reach whose sums the
    switch makes; None where it makes none. collectives: of kinds that were measured by themselves;
    others take what their protocols say.
    """

    device: Line
    flops_per_s: Number = Field(gt=0)
    relative: Line | None = None
    product: ProductCurve
    attention: AttentionCurve
    memory: Constant
    protocols: tuple[Protocol, ...] = Field(min_length=1)
    in_switch: Constant | None = None
    collectives: tuple[CollectiveCurve, ...] = ()

    def constants(self) -> Iterator[tuple[str, Constant]]:
        """All of them by name: `product.share`, `protocols.LL.start_ns`."""
        return _constants(self, "")


def _constants(own: Model, prefix: str) -> Iterator[tuple[str, Constant]]:
    for field in type(own).model_fields:
        value = getattr(own, field)
        if isinstance(value, Constant):
            yield prefix + field, value
        elif isinstance(value, Model):
            yield from _constants(value, f"{prefix}{field}.")
        elif isinstance(value, tuple):
            for each in value:
                yield from _constants(each, f"{prefix}{field}.{each.name}.")
