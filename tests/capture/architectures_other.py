"""Architectures for images, sound, and both with text, small: each trains the same as its graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.capture.tiny_configs import tiny_config

_TEXT_OF_32 = {"text_config": {"projection_size": 32}}
_SECTIONS = {
    "text_config": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [2, 1, 1],
        }
    }
}
# all positions of a text, of which an image takes 16 to 256
TEXT, CAPTION, SOUND = 300, 32, 16_000


@dataclass(frozen=True)
class OtherArchitecture:
    """changes: fields of the tiny configuration that do not follow from the defaults."""

    family: str
    model_type: str
    seq: int = TEXT
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def small(self) -> dict[str, Any]:
        """The configuration that tests run."""
        return tiny_config(self.model_type, self.changes)


def _vision(*model_types: str) -> tuple[OtherArchitecture, ...]:
    return tuple(OtherArchitecture("vision", model_type) for model_type in model_types)


def _multimodal(*model_types: str) -> tuple[OtherArchitecture, ...]:
    return tuple(OtherArchitecture("images and text", model_type) for model_type in model_types)


def _speech(*model_types: str) -> tuple[OtherArchitecture, ...]:
    return tuple(OtherArchitecture("speech", model_type, SOUND) for model_type in model_types)


OTHERS: tuple[OtherArchitecture, ...] = (
    *_vision(
        *("vit", "deit", "beit", "swin", "swinv2", "convnext", "convnextv2", "dinov2"),
        *("dinov2_with_registers", "segformer", "pvt", "pvt_v2", "focalnet", "levit", "regnet"),
        *("resnet", "timesformer", "swiftformer", "data2vec-vision", "ijepa"),
    ),
    *(
        OtherArchitecture("images and text", name, CAPTION, _TEXT_OF_32 if own else {})
        for name, own in (("clip", False), ("altclip", False), ("chinese_clip", False))
    ),
    *_multimodal("llava", "paligemma", "internvl", "janus", "cohere2_vision", "blip"),
    OtherArchitecture(
        "images and text",
        "qwen2_vl",
        changes={**_SECTIONS, "vision_config": {"embed_dim": 32, "hidden_size": 32}},
    ),
    OtherArchitecture(
        "images and text",
        "qwen2_5_vl",
        changes={**_SECTIONS, "vision_config": {"fullatt_block_indexes": [1]}},
    ),
    OtherArchitecture(
        "images and text",
        "qwen3_vl",
        changes={**_SECTIONS, "vision_config": {"deepstack_visual_indexes": [0, 1]}},
    ),
    *_speech("wav2vec2", "hubert", "wavlm"),
)
