"""Images and sound of a transformers model: their shapes, and their places in a text.

A model that reads media and text replaces tokens of the text by features. A sample has one image or
one clip of the configuration's size. The number of its tokens is that of the features which the
model itself computes from it, on the meta device.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch

Sizes = Mapping[str, int]
Grid = tuple[int, int, int]  # frames, rows and columns of patches

_DEFAULT_SIDE = 224  # published: the side of ImageNet crops, for a configuration without one
_PACKED_SIDE = 448  # chosen: 32 patches of 14 pixels, four windows of Qwen2.5-VL
_FRAMES = ("num_frames", "frames_per_clip")
_CHANNELS = ("num_channels", "in_channels", "in_chans")
_VISION = ("vision_config", "vision_tower_config", "backbone_config", "encoder")
_TOKENS = {
    "image": ("image_token_id", "image_token_index"),
    "audio": ("audio_token_id", "audio_token_index"),
}


class Media:
    """The images and sound that a head reads, one of each a sample."""

    def __init__(self, head: Any, config: Any, dtype: torch.dtype, model: Any) -> None:
        self._head, self._config, self._dtype, self._model = head, config, dtype, model
        self._parameters = inspect.signature(head.forward).parameters

    @cached_property
    def vision_config(self) -> Any:
        """The configuration of the images, which may be nested."""
        return next(_nested(self._config, _VISION), self._config)

    @cached_property
    def tokens(self) -> tuple[int, int] | None:
        """The id of the token that stands for a feature, and how many a sample has."""
        for kind, names in _TOKENS.items():
            token = _first(self._config, names)
            features = self._features_of(kind)
            if token is not None and features is not None:
                return int(token), features
        return None

    @cached_property
    def grid(self) -> Grid | None:
        """Frames, rows and columns of the patches of an image, for models that pack images."""
        if "image_grid_thw" not in self._parameters:
            return None
        vision = self.vision_config
        patch = vision.patch_size
        side = (getattr(vision, "image_size", None) or _PACKED_SIDE // 14 * patch) // patch
        return 1, side, side

    def equal_grids(self) -> AbstractContextManager[None]:
        """A context in which every image has this grid."""
        if self.grid is None:
            return nullcontext()
        # models that pack images need a version of transformers with `vision_utils`
        from meshwright.capture.hf_packed import packed_images

        return packed_images(self._model, self.vision_config, self.grid)

    def pixels(self, sizes: Sizes) -> torch.Tensor:
        """One image a sample.

        [b, c, h, w]; clips and lists of images have a dim more; packed images are [b * patches, n].
        """
        return self._pixels(sizes["batch"], () if self.grid else self._lead)

    @cached_property
    def _lead(self) -> tuple[int, ...]:
        """Dims between batch and channels: frames of a clip, or one image in a list of images."""
        frames = _first(self._config, _FRAMES)
        if frames is not None and "Video" in self._head.__name__:
            return (frames,)
        call = self._feature_call("image")
        if call is None:
            return ()
        for lead in ((), (1,)):
            try:
                call(pixel_values=self._pixels(2, lead))
            except (ValueError, RuntimeError, IndexError, TypeError, AttributeError):
                continue
            return lead
        return ()

    def _pixels(self, batch: int, lead: tuple[int, ...]) -> torch.Tensor:
        vision = self.vision_config
        if self.grid is not None:
            frames = _first(vision, ("temporal_patch_size",)) or 1
            elements = (_first(vision, _CHANNELS) or 3) * frames * vision.patch_size**2
            shape: tuple[int, ...] = (batch * math.prod(self.grid), elements)
            return torch.zeros(shape, dtype=self._dtype, device="meta")
        side = _first(vision, ("image_size", "video_size", "img_size")) or _DEFAULT_SIDE
        height, width = (side, side) if isinstance(side, int) else tuple(side)[-2:]
        shape = (batch, *lead, _first(vision, _CHANNELS) or 3, height, width)
        return torch.zeros(shape, dtype=self._dtype, device="meta")

    def _features_of(self, kind: str) -> int | None:
        """The number of features of one sample."""
        if kind != "image":
            return None
        batch = 2
        with self.equal_grids():
            call = self._feature_call(kind)
            if call is None:
                return None
            result = call(pixel_values=self._pixels(batch, () if self.grid else self._lead))
        features = getattr(result, "pooler_output", result)
        parts = features if isinstance(features, (list, tuple)) else [features]
        width = self._config.get_text_config().hidden_size
        return int(sum(math.prod(part.shape) for part in parts) // (batch * width))

    def _feature_call(self, kind: str) -> Any:
        """The model's own function from media to features, or None."""
        for module in (self._model, getattr(self._model, "model", None)):
            call = getattr(module, f"get_{kind}_features", None)
            if call is not None:
                return _on_meta(call)
        return None


def _on_meta(call: Any) -> Any:
    def run(**arguments: Any) -> Any:
        with torch.device("meta"), torch.no_grad():
            return call(**arguments)

    return run


def _nested(config: Any, names: tuple[str, ...]) -> Iterator[Any]:
    for name in names:
        nested = getattr(config, name, None)
        if nested is not None and hasattr(nested, "to_dict"):
            yield nested


def _first(config: Any, names: tuple[str, ...]) -> Any:
    """The value of the first of these fields that is set."""
    return next((v for name in names if (v := getattr(config, name, None)) is not None), None)
