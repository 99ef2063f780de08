"""Tiny configurations of transformers models, made from the library's defaults.

Widths, layers, heads, vocabularies and images become small where the name of a field says what it
is; a stack of stages keeps its widths and gets one block a stage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import transformers

_LAYERS = re.compile(
    r"(num_)?(hidden_|encoder_|decoder_|vision_|text_|qformer_)?(hidden_)?layers?|n_layers?|depth"
)
_WIDTH = re.compile(
    r"\w*hidden_size|d_model|(embed|hidden|projection|encoder|logit|vision_feature)_dim|n_embd"
    r"|projection_dim|projection_size"
)
_INNER = re.compile(r"\w*(intermediate_size|ffn_dim|mlp_dim)|d_ff")
_STAGES = frozenset({"depths", "hidden_sizes", "embed_dims", "embed_dim", "conv_dim", "num_heads"})
_NO_CHOICE = frozenset(
    {
        *("out_features", "out_indices", "stage_names", "_out_features", "_out_indices"),
        *("transformers_version", "architectures", "_name_or_path", "dtype"),
    }
)
VOCABULARY = 150


def tiny_config(model_type: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of a model type, shrunk, with changes that may be nested."""
    defaults = transformers.AutoConfig.for_model(model_type).to_dict()
    return {**_merged(_shrunk(defaults), changes), "model_type": model_type}


def _merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(settings)
    for key, value in changes.items():
        nested = merged.get(key)
        is_nested = isinstance(nested, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(nested, value) if is_nested else value
    return merged


def _shrunk(settings: Mapping[str, Any]) -> dict[str, Any]:
    has_stages = any(isinstance(settings.get(key), (list, tuple)) for key in _STAGES)
    small = {
        key: _stage(key, value) if has_stages else _value(key, value)
        for key, value in settings.items()
        if key not in _NO_CHOICE
    }
    patch, side = small.get("patch_size"), small.get("image_size")
    if isinstance(patch, int) and isinstance(side, int) and side % patch == 0 and not has_stages:
        small["image_size"] = min(side, 4 * patch)
    if isinstance(small.get("layer_types"), list):
        small["layer_types"] = small["layer_types"][-small["num_hidden_layers"] :]
    return small


def _stage(key: str, value: Any) -> Any:
    """Stages of different widths: one block each."""
    if key in ("depths", "depth") and isinstance(value, (list, tuple)):
        return [1 for _ in value]
    return value if _WIDTH.fullmatch(key) or _INNER.fullmatch(key) else _value(key, value)


def _value(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        keeps = key in ("id2label", "label2id", "rope_parameters")
        return value if keeps else _shrunk(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if re.search(r"_token_(id|index)$", key):
        return value if value < 100 else 100 + sum(map(ord, key)) % 45
    return _number(key, value)


def _number(key: str, value: int) -> int:
    if "vocab" in key:
        return min(value, VOCABULARY)
    if _LAYERS.fullmatch(key):
        return min(value, 2)
    if "key_value_heads" in key:
        return min(value, 2)
    if re.search(r"heads?$", key):
        return min(value, 4)
    if key == "head_dim":
        return 8
    if _INNER.fullmatch(key):
        return 48
    return 32 if _WIDTH.fullmatch(key) else value
