"""Op sketches: the content of an op model that does not depend on a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright.schema import OpClass
from meshwright_costmodel.expert_imbalance import ExpertLoad
from meshwright_solver.strategies.gemm_shape import WorkShape


@dataclass(frozen=True, kw_only=True)
class PortSketch:
    """One input or output of an op.

    slot_of: part -> position among the value's shardable slots. sent: an output for the next
    pipeline stage, which sends back its gradient. has_load: it has experts with uneven loads.
    """

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
    """The content of an op model that does not depend on a mesh.

    followers: (part, parts that may follow it). is_remade: the backward pass recomputes the op.
    zigzag: sequences of causal attention are loaded in zigzag order. load: of the busiest device,
    where a part is of experts. shape: the GEMM shape, where the calibration has curves. steps:
    positions that the op computes one after the other, 1 in most ops. quantized: bytes that a
    quantization moves, relative to those of a 16-bit tensor; 0 unless the op multiplies in 8 bits.
    """

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
    steps: int
    is_remade: bool
    load: ExpertLoad | None
    shape: WorkShape | None
    quantized: float = 0.0
