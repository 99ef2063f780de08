"""Packed images: models of transformers whose images lie one after another in one sequence.

Such models read grids of patches and cut the sequence at every image and every attention window, in
Python loops over values. Capture takes equally many patches for every sample. The cuts are then a
dim of their own, the batch stays a dim, and every position follows from the grid alone.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, vision_utils
from transformers.utils import generic

from meshwright.capture.hf_media import Grid
from meshwright.capture.substitution import Substitute, substituted
from meshwright.schema.errors import GraphError

T = torch.Tensor

_ATTENTION = "flash_segments"  # transformers passes segments to implementations named flash


@contextmanager
def packed_images(model: Any, vision_config: Any, grid: Grid) -> Iterator[None]:
    """Let the model take this grid of patches (frames, rows, columns) for every image."""
    orders = _LocalOrders()
    replaced: Mapping[Any, Callable[..., Any]] = {
        vision_utils.get_vision_position_ids: _position_ids,
        vision_utils.get_vision_cu_seqlens: _segments,
        vision_utils.get_vision_attention_seqlens: lambda *a, **k: (_segments(*a, **k), 0),
        vision_utils.get_vision_window_index: orders.windows,
        vision_utils.get_vision_interpolation_indices_and_weights: _interpolation,
        generic.get_max_seqlen: lambda *_, **__: 0,
    }
    AttentionInterface.register(_ATTENTION, _attention)
    parts = [model, *model.modules()]
    substitutes: list[Substitute] = [(vision_config, "_attn_implementation", _ATTENTION)]
    for module in [m for n, m in sys.modules.items() if n.startswith("transformers.models.")]:
        for name, value in vars(module).items():
            if callable(value) and (by := _replacement(replaced, value)) is not None:
                substitutes.append((module, name, by))
    for owner in {type(part) for part in parts if "get_image_features" in vars(type(part))}:
        original = vars(owner)["get_image_features"]
        if "image_grid_thw" in inspect.signature(original).parameters:
            substitutes.append((owner, "get_image_features", _with_grid(original, grid)))
    for owner in {type(part) for part in parts if hasattr(type(part), "_deepstack_process")}:
        substitutes.append((owner, "_deepstack_process", _add_rows))
    with substituted(*substitutes), orders:
        yield


def _replacement(
    replaced: Mapping[Any, Callable[..., Any]], value: Any
) -> Callable[..., Any] | None:
    try:
        return replaced.get(value)
    except TypeError:  # a callable without a hash
        return None


def _with_grid(original: Callable[..., Any], grid: Grid) -> Callable[..., Any]:
    """get_image_features with the grid of every image as numbers instead of a tensor."""

    def get_image_features(
        self: Any, pixel_values: T, image_grid_thw: Any = None, **options: Any
    ) -> Any:
        del image_grid_thw
        count = pixel_values.shape[0] // int(np.prod(grid))
        return original(self, pixel_values, np.tile(np.array(grid), (count, 1)), **options)

    return get_image_features


def _add_rows(_: Any, hidden_states: T, visual_pos_masks: T, visual_embeds: T) -> T:
    """Add features to the rows of the image tokens."""
    rows = torch.zeros_like(hidden_states)
    added = visual_embeds.to(hidden_states.dtype)
    return hidden_states + rows.masked_scatter(visual_pos_masks.unsqueeze(-1), added)


def _attention(
    module: Any,
    query: T,
    key: T,
    value: T,
    attention_mask: T | None,
    scaling: float | None = None,
    cu_seq_lens_q: T | None = None,
    is_causal: bool = False,
    **_: Any,
) -> tuple[T, None]:
    """Attention within segments of equal length: query, key and value [1, h, segments * n, d]."""
    del module
    segments = 1 if cu_seq_lens_q is None else cu_seq_lens_q.shape[0] - 1

    def cut(x: T) -> T:
        batch, heads, length, width = x.shape
        apart = x.reshape(batch, heads, segments, length // segments, width).transpose(1, 2)
        return apart.reshape(batch * segments, heads, length // segments, width)

    result = F.scaled_dot_product_attention(
        cut(query), cut(key), cut(value), attention_mask, is_causal=is_causal, scale=scaling
    )
    rows = result.transpose(1, 2)
    return rows.reshape(query.shape[0], -1, *rows.shape[2:]), None


def _counted(grid_thw: Any) -> tuple[int, Grid]:
    """The number of images, and the grid that they share."""
    frames, height, width = (int(size) for size in grid_thw[0])
    return len(grid_thw), (frames, height, width)


def _places(height: int, width: int, merge: int) -> tuple[T, T]:
    """Row and column of every patch, block by block of merge x merge patches."""
    shape = (height // merge, width // merge, merge, merge)
    rows = torch.arange(height).reshape(height // merge, 1, merge, 1).expand(shape)
    columns = torch.arange(width).reshape(1, width // merge, 1, merge).expand(shape)
    return rows.reshape(-1), columns.reshape(-1)


def _for_images(x: T, count: int, frames: int) -> T:
    """Rows of one frame, for every frame of every image."""
    return x.expand(count * frames, *x.shape).reshape(count * frames * len(x), *x.shape[1:])


def _position_ids(
    grid_thw: Any,
    spatial_merge_size: int,
    include_temporal: bool = False,
    kwargs: dict[str, Any] | None = None,
) -> T:
    del kwargs
    count, (frames, height, width) = _counted(grid_thw)
    rows, columns = _places(height, width, spatial_merge_size)
    axes = [torch.zeros_like(rows)] if include_temporal else []
    return _for_images(torch.stack([*axes, rows, columns], -1), count, frames)


def _segments(
    grid_thw: Any, config: Any = None, merge_temporal: bool = False, kwargs: Any = None
) -> T:
    """A tensor with as many elements as there are segments, and one more; its values are unread."""
    del config, kwargs
    count, (frames, *_) = _counted(grid_thw)
    return torch.empty(count * (1 if merge_temporal else frames) + 1, dtype=torch.int32)


def _interpolation(
    grid_thw: Any,
    num_grid_per_side: int,
    mode: str = "bilinear",
    align_corners: bool = False,
    spatial_merge_size: int = 1,
    padding: str = "border",
    kwargs: dict[str, Any] | None = None,
) -> tuple[T, T]:
    """Rows of a square table of positions and their weights, for every patch."""
    del kwargs
    count, (frames, height, width) = _counted(grid_thw)
    taps, weights = zip(
        *(
            vision_utils._interpolation_axis_taps_weights(
                place, torch.full((), size), num_grid_per_side, mode, align_corners, padding
            )
            for place, size in zip(
                _places(height, width, spatial_merge_size), (height, width), strict=True
            )
        ),
        strict=True,
    )
    points = taps[0].shape[1] ** 2
    rows = (taps[0][:, :, None] * num_grid_per_side + taps[1][:, None, :]).reshape(-1, points)
    weight = (weights[0][:, :, None] * weights[1][:, None, :]).reshape(-1, points)
    return _for_images(rows, count, frames), _for_images(weight, count, frames)


@dataclass
class _LocalOrders(TorchFunctionMode):
    """Orders of rows that are the same in every image, applied image by image.

    by_index: the number of images, the order of the rows of one image, and its inverse, by the id
    of the tensor that the model indexes with.
    """

    by_index: dict[int, tuple[int, T, T]] = field(default_factory=dict)
    indices: list[T] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def windows(
        self,
        grid_thw: Any,
        spatial_merge_size: int,
        window_size: int,
        patch_size: int,
        kwargs: dict[str, Any] | None = None,
    ) -> tuple[T, T]:
        """The order of the merged patches, window by window, and the segments of the windows."""
        del kwargs
        count, (frames, height, width) = _counted(grid_thw)
        rows, columns = height // spatial_merge_size, width // spatial_merge_size
        side = window_size // spatial_merge_size // patch_size
        if rows % side or columns % side or frames != 1:
            raise GraphError(
                f"an image of {height} x {width} patches has no whole windows of {window_size} "
                "pixels. Use a multiple of the window"
            )
        places = torch.arange(rows * columns)
        there = places.reshape(rows // side, side, columns // side, side).transpose(1, 2)
        back = places.reshape(rows // side, columns // side, side, side).transpose(1, 2)
        index = self._index(count, there.reshape(-1), back.reshape(-1))
        return index, torch.empty(count * (rows // side) * (columns // side) + 1)

    def _index(self, count: int, order: T, inverse: T) -> T:
        index = torch.empty(count * len(order), dtype=torch.int64)
        self.indices.append(index)  # an id is unique among living objects only
        self.by_index[id(index)] = count, order, inverse
        return index

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        if func in (torch.argsort, T.argsort) and args and id(args[0]) in self.by_index:
            count, order, inverse = self.by_index[id(args[0])]
            return self._index(count, inverse, order)
        if func is T.__getitem__:
            x, index = args
            first = index[0] if isinstance(index, tuple) else index
            if id(first) in self.by_index:
                count, order, _ = self.by_index[id(first)]
                images = x.reshape(count, len(order), *x.shape[1:])
                return images.index_select(1, order).reshape(x.shape)
        return func(*args, **(kwargs or {}))
