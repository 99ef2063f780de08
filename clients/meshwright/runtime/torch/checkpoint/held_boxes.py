"""Tensors of which a rank holds boxes, as torch.distributed.checkpoint writes and reads them.

A rank hands in the boxes that it holds, also where a layout is none of DTensor's: a plain tensor
would pass as whole, and a `_StridedShard` as one box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from meshwright.runtime.checkpoint.runs import Runs, boxes

T = torch.Tensor


class HeldBoxes(torch.Tensor):
    """A tensor of which this rank holds some boxes, in one part, or in several that may overlap:
    each of them is read, and of one alone may be written.

    No operator knows it.
    """

    boxes: list[tuple[torch.Size, T]]  # offsets in the whole, and what lies there

    @staticmethod
    def __new__(cls, shape: Sequence[int], parts: Sequence[tuple[T, Sequence[Runs]]]) -> HeldBoxes:
        first, _ = parts[0]
        made: HeldBoxes = torch.Tensor._make_wrapper_subclass(
            cls, tuple(shape), dtype=first.dtype, device=first.device
        )
        made.boxes = [
            (torch.Size(own.start for own in box.source), local[box.target])
            for local, runs in parts
            for box in boxes(runs)
        ]
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch calls it on the class
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{func} of boxes that are only written and read")

    def __create_write_items__(self, fqn: str, _: object) -> list[WriteItem]:
        return [
            WriteItem(
                index=MetadataIndex(fqn, offsets),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(
                    chunk=ChunkStorageMetadata(offsets=offsets, sizes=own.shape),
                    properties=TensorProperties.create_from_tensor(own),
                    size=self.shape,
                ),
            )
            for offsets, own in self.boxes
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(offsets=at, sizes=own.shape) for at, own in self.boxes]

    def __get_tensor_shard__(self, index: MetadataIndex) -> T:
        """A box by its place. The number tells boxes of several parts at one place from each other;
        where a tensor is written it counts those of all ranks."""
        number = index.index
        if number is not None and number < len(self.boxes):
            offsets, own = self.boxes[number]
            if offsets == index.offset:
                return own
        return next(own for offsets, own in self.boxes if offsets == index.offset)
