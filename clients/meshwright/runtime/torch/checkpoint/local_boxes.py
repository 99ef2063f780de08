"""Local boxes of tensors, which torch.distributed.checkpoint writes and reads.

A rank passes its boxes for every layout, also for those that DTensor cannot express. A plain tensor
would count as whole, and a `_StridedShard` as one box.
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

from meshwright.runtime.checkpoint.index_runs import Runs, boxes

T = torch.Tensor


class HeldBoxes(torch.Tensor):
    """A tensor of which this rank holds some boxes, in one part or in several.

    Several parts may overlap. Each of them is read, and only a single part can be written. The
    tensor supports no operators.
    """

    boxes: list[tuple[torch.Size, T]]  # the offsets in the whole tensor, and the local box

    @staticmethod
    def __new__(cls, shape: Sequence[int], parts: Sequence[tuple[T, Sequence[Runs]]]) -> HeldBoxes:
        first, _ = parts[0]
        tensor: HeldBoxes = torch.Tensor._make_wrapper_subclass(
            cls, tuple(shape), dtype=first.dtype, device=first.device
        )
        tensor.boxes = [
            (torch.Size(place.start for place in box.source), local[box.target])
            for local, runs in parts
            for box in boxes(runs)
        ]
        return tensor

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
                    chunk=ChunkStorageMetadata(offsets=offsets, sizes=box.shape),
                    properties=TensorProperties.create_from_tensor(box),
                    size=self.shape,
                ),
            )
            for offsets, box in self.boxes
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(offsets=at, sizes=box.shape) for at, box in self.boxes]

    def __get_tensor_shard__(self, index: MetadataIndex) -> T:
        """The box at an index.

        The number distinguishes boxes of several parts at the same offsets. In a write it counts
        the boxes of all ranks.
        """
        number = index.index
        if number is not None and number < len(self.boxes):
            offsets, box = self.boxes[number]
            if offsets == index.offset:
                return box
        return next(box for offsets, box in self.boxes if offsets == index.offset)
