"""DTensor placements as data: one for every dim of a PyTorch DeviceMesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from pydantic import model_validator

from meshwright.convert.plain import check_shapes
from meshwright.schema import ConversionError, Model
from meshwright.schema.layout import Reduction

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement as TorchPlacement


class Placement(Model):
    """A placement: Shard of a dim, Replicate, or Partial with a reduction.

    split_factor: the number of pieces of the dim that torch's _StridedShard cuts; 1 means Shard.
    """

    kind: Literal["shard", "replicate", "partial"]
    dim: int | None = None
    split_factor: int = 1
    reduction: Reduction | None = None

    @model_validator(mode="after")
    def _valid(self) -> Placement:
        shard, partial = self.kind == "shard", self.kind == "partial"
        if (
            shard != (self.dim is not None)
            or (self.dim or 0) < 0
            or partial != (self.reduction is not None)
            or self.split_factor < 1
            or (self.split_factor > 1 and not shard)
        ):
            raise ConversionError(
                f"{self!r}: only a shard has a dim, from 0 on, and a split factor, from 1 on; "
                "only a partial has a reduction"
            )
        return self

    def __str__(self) -> str:
        if self.kind == "shard" and self.split_factor > 1:
            return f"_StridedShard({self.dim}, split_factor={self.split_factor})"
        inside = {"shard": self.dim, "partial": self.reduction, "replicate": ""}[self.kind]
        return f"{self.kind.capitalize()}({inside})"


REPLICATE = Placement(kind="replicate")


class DTensorLayout(Model):
    """The placements of a tensor of this shape, one for every dim of the grid.

    padded_from: the tensor's shape without padding, where `shape` includes zeros at the end.
    """

    shape: tuple[int, ...]
    placements: tuple[Placement, ...]
    padded_from: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _valid(self) -> DTensorLayout:
        check_shapes(self.shape, self.padded_from, None)
        for placement in self.placements:
            if (placement.dim or 0) >= max(len(self.shape), 1):
                raise ConversionError(f"{placement} of a tensor of the shape {list(self.shape)}")
        return self

    def to_torch(self) -> tuple[TorchPlacement, ...]:
        """torch's placements; ConversionError where this version has no _StridedShard."""
        from torch.distributed import tensor

        placements: list[TorchPlacement] = []
        for placement in self.placements:
            if placement.kind == "replicate":
                placements.append(tensor.Replicate())
            elif placement.kind == "partial":
                placements.append(tensor.Partial(cast(str, placement.reduction)))
            elif placement.split_factor == 1:
                placements.append(tensor.Shard(cast(int, placement.dim)))
            else:
                placements.append(_strided_shard(cast(int, placement.dim), placement.split_factor))
        return tuple(placements)

    @classmethod
    def from_torch(
        cls, placements: Sequence[TorchPlacement], shape: Sequence[int]
    ) -> DTensorLayout:
        """The data of torch's placements for a tensor of this shape.

        Raises ConversionError for other kinds of placements.
        """
        return cls(
            shape=tuple(shape),
            placements=tuple(_data(placement, len(shape)) for placement in placements),
        )


def _strided_shard(dim: int, split_factor: int) -> TorchPlacement:
    from torch.distributed.tensor import placement_types

    kind = getattr(placement_types, "_StridedShard", None)
    if kind is None:
        raise ConversionError(
            f"dim {dim} is cut inside each of {split_factor} pieces, which needs _StridedShard, "
            "missing from this torch. Install torch 2.13"
        )
    return cast("TorchPlacement", kind(dim, split_factor=split_factor))


def _data(placement: TorchPlacement, rank: int) -> Placement:
    # by the class's name: a subclass of Partial, such as a masked one, has another meaning
    name = type(placement).__name__
    if name == "Replicate":
        return REPLICATE
    if name in ("Shard", "_StridedShard"):
        dim, factor = int(placement.dim), int(getattr(placement, "split_factor", 1))  # type: ignore[attr-defined]  # a shard has a dim
        return Placement(kind="shard", dim=dim + rank if dim < 0 else dim, split_factor=factor)
    reduction = getattr(placement, "reduce_op", "")
    if name == "Partial" and reduction in ("sum", "max"):
        return Placement(kind="partial", reduction=cast(Reduction, reduction))
    raise ConversionError(
        f"{placement!r} is not supported. Use Shard, Replicate, Partial('sum') or Partial('max')"
    )
