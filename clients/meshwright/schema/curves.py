"""Performance curves: the share of peak by shape and by message size, for element device."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from meshwright.schema.model import Line, Model, Number


class Constant(Model):
    """A calibration constant."""

    value: Number = Field(gt=0, description="The value of the constant.")
    spread: Number = Field(
        ge=0, description="The standard deviation of the logarithm of the value."
    )
    source: Line = Field(description="The source of the value.")


class ProductCurve(Model):
    """The performance curve of `groups` matrix products of m x k by k x n."""

    share: Constant = Field(description="The share of peak FLOP/s that large products reach.")
    eight_bit: Constant = Field(description="The share of `share` that 8-bit products reach.")
    half_tile: Constant = Field(
        description="The rows and columns of padding that a group adds to its curve."
    )
    fill: Constant = Field(
        description="The elements of the result whose time is lost while multiprocessors fill and "
        "drain."
    )
    half_depth: Constant = Field(
        description="The elements of k whose time is lost while multiprocessors fill and drain, "
        "in 16-bit numbers. 8-bit numbers lose twice as many."
    )
    unhidden: Constant = Field(
        description="The share of the shorter of compute time and memory time that the longer one "
        "does not hide."
    )
    sustained: Constant | None = Field(
        default=None,
        description="The share of their rate as single kernels that products keep in training "
        "steps. None: all of it.",
    )
    sustained_eight_bit: Constant | None = Field(
        default=None, description="The same of 8-bit products."
    )
    group_launches: Constant | None = Field(
        default=None,
        description="The launches of each group of a product whose groups have weights of their "
        "own, such as experts. None: one launch for all groups.",
    )
    group_launches_eight_bit: Constant | None = Field(
        default=None, description="The same of 8-bit products, whose casts are launched too."
    )


class AttentionCurve(Model):
    """The performance curve of fused attention."""

    share: Constant = Field(
        description="The share of peak FLOP/s of the forward pass, for long sequences and head "
        "dimension 128."
    )
    backward: Constant = Field(description="The share of `share` that the backward pass reaches.")
    half_head: Constant = Field(
        description="The head dimension at which attention reaches half of its rate."
    )
    half_rows: Constant = Field(
        description="The number of queries of a sequence at which attention reaches half of its "
        "rate."
    )


class Protocol(Model):
    """A protocol of a communication library. The library uses the fastest of its protocols."""

    name: Line = Field(description="The name of the protocol.")
    start_ns: Constant = Field(description="The time before the first step, in nanoseconds.")
    start_between_ns: Constant = Field(
        description="The additional start time of one pass over several nodes, in nanoseconds. An "
        "all-gather takes one pass, an all-reduce two."
    )
    step: Constant = Field(
        description="The time of a step inside a node, as a multiple of the latency of the link."
    )
    step_between: Constant = Field(
        description="The time of a step between nodes, as a multiple of the latency of the link."
    )
    share: Constant = Field(description="The share of the bandwidth of links inside a node.")
    share_between: Constant = Field(
        description="The share of the bandwidth of links between nodes."
    )


class CollectiveCurve(Model):
    """The correction of one kind of collective relative to its protocols."""

    name: Line = Field(description="The kind of the collective, such as `all_reduce`.")
    start: Constant = Field(description="The factor on its latency.")
    slope: Constant = Field(description="The factor on its time per byte.")


class DeviceCurves(Model):
    """The performance curves of a device, its links and its communication library."""

    device: Line = Field(description="The name of the device.")
    flops_per_s: Number = Field(
        gt=0,
        description="The 16-bit peak FLOP/s of the device. A device without curves uses those of "
        "the device with the nearest peak.",
    )
    relative: Line | None = Field(
        default=None,
        description="The device whose curves these are, if this device was never measured.",
    )
    product: ProductCurve = Field(description="The curve of matrix products.")
    attention: AttentionCurve = Field(description="The curve of fused attention.")
    memory: Constant = Field(
        description="The share of the memory bandwidth that memory-bound ops reach."
    )
    protocols: tuple[Protocol, ...] = Field(
        min_length=1, description="The protocols of the communication library."
    )
    in_switch: Constant | None = Field(
        default=None,
        description="The share of a link's bandwidth that an all-reduce reaches if the switch "
        "computes the sums. None if the switch computes no sums.",
    )
    collectives: tuple[CollectiveCurve, ...] = Field(
        default=(),
        description="The corrections of kinds of collectives that were measured separately.",
    )

    def constants(self) -> Iterator[tuple[str, Constant]]:
        """The constants by name, such as `product.share` and `protocols.LL.start_ns`."""
        return _constants(self, "")


def _constants(curve: Model, prefix: str) -> Iterator[tuple[str, Constant]]:
    for field in type(curve).model_fields:
        value = getattr(curve, field)
        if isinstance(value, Constant):
            yield prefix + field, value
        elif isinstance(value, Model):
            yield from _constants(value, f"{prefix}{field}.")
        elif isinstance(value, tuple):
            for element in value:
                yield from _constants(element, f"{prefix}{field}.{element.name}.")
