"""Boxes, crops and samples of images.

A sample at (y, x) is the mean of the four elements around it, weighted bilinearly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.verification.execution.kernels.call import (
    Array,
    KernelCall,
    NotExecutable,
    scaled,
)
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient

Gradients = tuple[Array | None, ...]


@dataclass(frozen=True, slots=True)
class Corner:
    """One element of a sample: its place, its weight (0 outside), and the weight's slopes."""

    y: Array
    x: Array
    weight: Array
    by_y: Array
    by_x: Array


def corners(y: Array, x: Array, height: int, width: int) -> list[Corner]:
    """The four elements around each point; those outside of the image count as zero."""
    top, left = np.floor(y), np.floor(x)
    elements = []
    for below in (0, 1):
        for right in (0, 1):
            rows, columns = top + below, left + right
            inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
            tall = y - top if below else top + 1 - y
            wide = x - left if right else left + 1 - x
            elements.append(
                Corner(
                    np.clip(rows, 0, height - 1).astype(np.int64),
                    np.clip(columns, 0, width - 1).astype(np.int64),
                    inside * tall * wide,
                    inside * wide * (1 if below else -1),
                    inside * tall * (1 if right else -1),
                )
            )
    return elements


# grids


def _grid_points(call: KernelCall) -> tuple[Array, Array, Array, Array]:
    """y and x of all points in elements, then their slopes with respect to the grid."""
    _, _, height, width = call.x.shape
    aligned = bool(call.attrs.get("align_corners", False))
    padding = str(call.attrs.get("padding_mode", "zeros"))
    if call.attrs.get("mode", "bilinear") != "bilinear" or padding not in ("zeros", "border"):
        raise NotExecutable(call.kind, "known are bilinear samples with zeros or border around")
    points = []
    for size, place in ((height, 1), (width, 0)):
        step = (size - 1) / 2 if aligned else size / 2
        position = (call.inputs[1][..., place] + 1) * step - (0 if aligned else 0.5)
        slope = np.full(position.shape, step)
        if padding == "border":
            slope = np.where((position > 0) & (position < size - 1), slope, 0.0)
            position = np.clip(position, 0, size - 1)
        points += [position, slope]
    return points[0], points[2], points[1], points[3]


def _grid_sample(call: KernelCall) -> Array:
    y, x, _, _ = _grid_points(call)
    result = np.zeros(call.shape)
    images = np.arange(len(call.x))[:, None, None]
    for corner in corners(y, x, *call.x.shape[2:]):
        result += np.moveaxis(call.x[images, :, corner.y, corner.x], -1, 1) * corner.weight[:, None]
    return result


def _grid_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    y, x, y_slope, x_slope = _grid_points(call)
    images = np.arange(len(call.x))[:, None, None]
    whole = np.zeros_like(np.moveaxis(call.x, 1, -1))
    grid = np.zeros(call.inputs[1].shape)
    for corner in corners(y, x, *call.x.shape[2:]):
        g = np.moveaxis(sent[0], 1, -1)
        np.add.at(whole, (images, corner.y, corner.x), g * corner.weight[..., None])
        along = (g * call.x[images, :, corner.y, corner.x]).sum(axis=-1)
        grid[..., 0] += along * corner.by_x * x_slope
        grid[..., 1] += along * corner.by_y * y_slope
    return np.moveaxis(whole, -1, 1), grid


# crops


@dataclass(frozen=True, slots=True)
class Crops:
    """The samples of each box.

    image: image numbers [b, 1, 1]. y, x: places of the samples [b, rows, columns]. inside: whether
    a sample lies in the image. y_share, x_share: position of a sample within its box, 0 to 1.
    """

    image: Array
    y: Array
    x: Array
    inside: Array
    y_share: Array
    x_share: Array


def _crops(call: KernelCall) -> Crops:
    _, height, width, _ = call.x.shape
    _, rows, columns, _ = call.shape
    if call.attrs.get("method", "bilinear") != "bilinear":
        raise NotExecutable(call.kind, "known are bilinear samples")
    boxes = call.inputs[1]

    def along(count: int, size: int, low: Array, high: Array) -> tuple[Array, Array]:
        share = np.arange(count) / (count - 1) if count > 1 else np.full(1, 0.5)
        return (low[:, None] * (1 - share) + high[:, None] * share) * (size - 1), share

    y, y_share = along(rows, height, boxes[:, 0], boxes[:, 2])
    x, x_share = along(columns, width, boxes[:, 1], boxes[:, 3])
    inside = ((y >= 0) & (y <= height - 1))[:, :, None] & ((x >= 0) & (x <= width - 1))[:, None]
    shape = (len(boxes), rows, columns)
    return Crops(
        (call.inputs[2].astype(np.int64) % len(call.x))[:, None, None],
        np.broadcast_to(y[:, :, None], shape),
        np.broadcast_to(x[:, None], shape),
        inside,
        y_share[:, None],
        x_share[None],
    )


def _crop_and_resize(call: KernelCall) -> Array:
    """Images [n, y, x, c]; boxes y0 x0 y1 x1 as shares of the image; outside is attrs value."""
    crops = _crops(call)
    result = np.zeros(call.shape)
    for corner in corners(crops.y, crops.x, *call.x.shape[1:3]):
        result += call.x[crops.image, corner.y, corner.x] * corner.weight[..., None]
    return np.where(crops.inside[..., None], result, call.number("value", 0.0))


def _crop_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    crops = _crops(call)
    height, width = call.x.shape[1:3]
    g = np.where(crops.inside[..., None], sent[0], 0.0)
    whole, boxes = np.zeros(call.x.shape), np.zeros(call.inputs[1].shape)
    for corner in corners(crops.y, crops.x, height, width):
        taken = (crops.image, corner.y, corner.x)
        np.add.at(whole, taken, g * corner.weight[..., None])
        along = (g * call.x[taken]).sum(axis=-1)
        y, x = along * corner.by_y * (height - 1), along * corner.by_x * (width - 1)
        parts = (
            y * (1 - crops.y_share),
            x * (1 - crops.x_share),
            y * crops.y_share,
            x * crops.x_share,
        )
        boxes += np.stack([part.sum(axis=(1, 2)) for part in parts], axis=-1)
    return whole, boxes, None


# regions


def _region_samples(call: KernelCall) -> tuple[Array, list[Corner]]:
    """Image numbers and corners, [regions, rows, columns, samples, samples]."""
    _, _, height, width = call.x.shape
    _, _, rows, columns = call.shape
    scale, count = call.number("scale", 1.0), int(call.number("samples", 2))
    regions = call.inputs[1]
    end = int(call.number("end_mode", 1))

    def along(low: Array, high: Array, parts: int) -> Array:
        start = low * scale
        length = np.maximum((high + end) * scale - start, 1.0)
        places = (np.arange(parts)[:, None] + (np.arange(count) + 0.5) / count) / parts
        return np.asarray(start[:, None, None] + length[:, None, None] * places)

    y = along(regions[:, 2], regions[:, 4], rows)[:, :, None, :, None]
    x = along(regions[:, 1], regions[:, 3], columns)[:, None, :, None, :]
    y, x = np.broadcast_arrays(y, x)
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    region_corners = corners(np.clip(y, 0, height - 1), np.clip(x, 0, width - 1), height, width)
    share = inside / count**2
    image = regions[:, 0].astype(np.int64) % len(call.x)
    return image[:, None, None, None, None], [
        Corner(corner.y, corner.x, corner.weight * share, corner.by_y, corner.by_x)
        for corner in region_corners
    ]


def _roi_align(call: KernelCall) -> Array:
    image, region_corners = _region_samples(call)
    result = np.zeros(call.shape)
    for corner in region_corners:
        taken = call.x[image, :, corner.y, corner.x] * corner.weight[..., None]
        result += np.moveaxis(taken.sum(axis=(3, 4)), -1, 1)
    return result


def _roi_gradients(call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    image, region_corners = _region_samples(call)
    whole = np.zeros_like(np.moveaxis(call.x, 1, -1))
    g = np.moveaxis(sent[0], 1, -1)[:, :, :, None, None]
    for corner in region_corners:
        np.add.at(whole, (image, corner.y, corner.x), g * corner.weight[..., None])
    return np.moveaxis(whole, -1, 1), None


# boxes


def _pair(call: KernelCall, name: str, default: float) -> Array:
    return np.asarray(call.attrs.get(name, [default] * 4), dtype=np.float64)


def _centres(boxes: Array) -> tuple[Array, Array]:
    """Centres and sizes of boxes x0 y0 x1 y1, both ends inside."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2] + 1


def _box_encode(call: KernelCall) -> Array:
    centre, size = _centres(call.x)
    target_centre, target_size = _centres(call.inputs[1])
    offsets = np.concatenate(
        [(target_centre - centre) / size, np.log(np.abs(target_size / size))], axis=1
    )
    return np.asarray((offsets - _pair(call, "means", 0.0)) / _pair(call, "stds", 1.0))


def _box_encode_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    centre, size = _centres(call.x)
    target_centre, target_size = _centres(call.inputs[1])
    g = sent[0] / _pair(call, "stds", 1.0)
    place, length = g[:, :2], g[:, 2:]
    by_centre = scaled(place, 1 / size)
    by_size = scaled(-place, (target_centre - centre) / size**2) - scaled(length, 1 / size)
    by_target = scaled(length, 1 / target_size)
    return (
        np.concatenate([-by_centre / 2 - by_size, -by_centre / 2 + by_size], axis=1),
        np.concatenate([by_centre / 2 - by_target, by_centre / 2 + by_target], axis=1),
    )


def _iou(call: KernelCall) -> Array:
    """Shared area over joint area (attrs mode iou) or over the target's (iof)."""
    boxes, targets = call.inputs

    def area(rectangles: Array) -> Array:
        return np.asarray(
            (rectangles[..., 2] - rectangles[..., 0] + 1)
            * (rectangles[..., 3] - rectangles[..., 1] + 1)
        )

    low = np.maximum(targets[:, None, :2], boxes[None, :, :2])
    high = np.minimum(targets[:, None, 2:], boxes[None, :, 2:])
    shared = np.prod(np.maximum(high - low + 1, 0), axis=-1)
    whole = area(targets)[:, None]
    if call.attrs.get("mode", "iou") == "iou":
        whole = whole + area(boxes)[None] - shared
    return np.where(whole == 0, 0.0, shared / np.where(whole == 0, 1.0, whole))


def _random_choice(call: KernelCall) -> tuple[Array, Array]:
    """The first true elements, which stand for random ones."""
    count = call.shape[0]
    chosen = np.argwhere(call.x.astype(np.bool_))[:count]
    places = np.zeros(call.shape, dtype=np.int64)
    places[: len(chosen)] = chosen
    return places, np.arange(count) < len(chosen)


def _check_valid(call: KernelCall) -> Array:
    """Boxes x0 y0 x1 y1 inside an image of height, width and ratio."""
    height, width, ratio = call.inputs[1].reshape(-1)[:3]
    boxes = call.x
    inside = (boxes[:, :2] >= 0).all(axis=1)
    ends = (boxes[:, 2] <= width * ratio - 1) & (boxes[:, 3] <= height * ratio - 1)
    return np.asarray(inside & ends)


VISION: Mapping[str, OpKernel] = {
    "grid_sample": OpKernel(_grid_sample, _grid_gradients),
    "crop_and_resize": OpKernel(_crop_and_resize, _crop_gradients),
    "roi_align": OpKernel(_roi_align, _roi_gradients),
    "box_encode": OpKernel(_box_encode, _box_encode_gradients),
    "iou": OpKernel(_iou, no_gradient),
    "random_choice_with_mask": OpKernel(_random_choice, no_gradient),
    "check_valid": OpKernel(_check_valid, no_gradient),
}
