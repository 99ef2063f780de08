"""What is known of an op's strategies before there is a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright.schema import OpClass
from meshwright_costmodel.expert_imbalance import ExpertLoad
from meshwright_solver.strategies.gemm_shape import WorkShape


@dataclass(frozen=True, kw_only=True)
class PortSketch:
    """One input or output. slot_of: part -> position among the value's shardable slots. sent: an
    output that goes to the next pipeline stage and whose gradient comes back. has_load: its experts
    are asked for unevenly."""

    is_free: bool
    slot_of: tuple[tuple[int, int], ...]
    bytes: int
    has_gradient: bool
    saved: bool
    sent: bool
    is_parameter: bool
    has_load: bool


@dataclass(frozen=True, kw_only=True)
class OpSketch:
    """What no mesh changes. followers: a part, and the parts that may follow it. is_remade: its
    forward pass is done again in the backward pass. zigzag: rows of causal masks are loaded in the
    order that makes their parts as much work. load: of the busiest device, where parts are
    experts. shape: of products and attention, where the calibration tells shapes apart."""

    op_class: OpClass
    dtype: str
    flops: float
    sizes: tuple[int, ...]
    shardable: tuple[bool, ...]
    reused: tuple[bool, ...]
    halo_elements: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    inputs: Sequence[PortSketch]
    outputs: Sequence[PortSketch]
    sparse_inputs: tuple[int, ...]
    skewed: tuple[bool, ...]
    zigzag: bool
    followers: tuple[tuple[int, tuple[int, ...]], ...]
    candidates: int
    in_place: bool
    is_remade: bool
    load: ExpertLoad | None
    shape: WorkShape | None
