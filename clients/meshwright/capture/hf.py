"""Capture of Hugging Face configurations, from models without weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from meshwright.capture.hf_inputs import HeadInputs
from meshwright.capture.hf_keys import unread_keys
from meshwright.capture.module import capture_module
from meshwright.capture.precision import DType, module_dtype
from meshwright.capture.selective_scan import scans_as_ops
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError, MeshwrightError

# usual training heads of model types; encoder heads come before heads of converted encoders, and
# heads that read images and text before those that read a part of it
_HEADS = (
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_MASKED_IMAGE_MODELING_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TO_IMAGE_MAPPING_NAMES",
)
_HEADS_OF_PAIRS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
)
_NO_CHECKS = "TRANSFORMERS_DISABLE_TORCH_CHECK"  # published: an option of transformers
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def capture_hf(
    config: Mapping[str, Any] | str | Path,
    *,
    batch: int,
    seq: int | None = None,
    name: str | None = None,
    dtype: DType | None = None,
    autocast: DType | None = None,
) -> Graph:
    """The training graph (forward with labels and loss) of a `config.json`.

    The head is the first of `architectures`, or the usual head of the model type. Parameters have
    the config's dtype, by default bfloat16; dropout and masks on spectrograms are off. `seq` is the
    sequence length of a text model, by default its maximum, for both encoder and decoder. For an
    audio model it is the number of samples; image models ignore it. `dtype` replaces the config's;
    with `autocast`, as in `capture_module`, parameters are float32 by default.
    """
    settings, origin = _settings(config)
    model_config = build_config(settings)
    unread = unread_keys(settings, model_config.model_type)
    head = head_of(settings, model_config)
    if dtype is None and autocast is not None:
        dtype = torch.float32
    model_dtype = _dtype(settings) if dtype is None else module_dtype(dtype)
    with _graph_errors("cannot build", head), torch.device("meta"):
        model = head._from_config(
            model_config, dtype=model_dtype, attn_implementation=attention_of(head)
        )
    model.train()
    with _graph_errors("cannot find the inputs of", head):
        inputs = HeadInputs(head, model_config, model_dtype, batch=batch, seq=seq, model=model)
    with (
        _graph_errors("cannot trace", head),
        scans_as_ops(head),
        _without_checks(),
        inputs.media.equal_grids(),
    ):
        graph = capture_module(
            model,
            inputs,
            symbols=inputs.symbols,
            limits=inputs.limits,
            constants=[*numbers_of(model_config.to_dict()), *inputs.constants],
            name=name or settings.get("_name_or_path") or origin or model_config.model_type,
            autocast=autocast,
        )
    if graph.loss is None:
        raise GraphError(f"{head.__name__} returned no loss for its labels")
    notes = [
        f"the graph is that of a sample without sound: {name} is not captured"
        for name in inputs.left_out
    ]
    if unread:
        notes.append(f"transformers reads no config key {', '.join(map(repr, unread))}")
    return graph.model_copy(update={"notes": (*graph.notes, *notes)}) if notes else graph


def _settings(config: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], str]:
    if isinstance(config, Mapping):
        return dict(config), ""
    path = Path(config)
    try:
        settings = json.loads(path.read_text())
    except OSError as failure:
        raise GraphError(f"cannot read the config {str(path)!r}: {failure.strerror}") from None
    except ValueError as failure:
        raise GraphError(f"the config {str(path)!r} is not JSON: {failure}") from None
    if not isinstance(settings, dict):
        raise GraphError(f"the config {str(path)!r} must hold a JSON object")
    return settings, path.stem


def build_config(settings: Mapping[str, Any]) -> Any:
    options = {key: value for key, value in settings.items() if key != "model_type"}
    model_type = settings.get("model_type")
    if not isinstance(model_type, str):
        raise GraphError("the config names no model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        raise GraphError(
            f"transformers {transformers.__version__} has no model_type {model_type!r}"
        )
    with _graph_errors("cannot build", transformers.CONFIG_MAPPING[model_type]):
        model_config = transformers.AutoConfig.for_model(model_type, **options)
    for part in _parts(model_config):
        _set_for_training(part)
    if getattr(model_config, "is_encoder_decoder", False) and not _is_set(
        model_config, "decoder_start_token_id"
    ):
        # the value of the token changes no shape
        model_config.decoder_start_token_id = getattr(model_config, "pad_token_id", None) or 0
    return model_config


def _parts(model_config: Any) -> Iterator[Any]:
    """A configuration and those nested in it."""
    yield model_config
    for value in list(vars(model_config).values()):
        if isinstance(value, transformers.PretrainedConfig):
            yield from _parts(value)


def _set_for_training(model_config: Any) -> None:
    """No dropout, no cache, no masks on spectrograms."""
    for field in list(vars(model_config)):
        if "drop" in field and isinstance(getattr(model_config, field), float):
            setattr(model_config, field, 0.0)
    if hasattr(model_config, "use_cache"):
        model_config.use_cache = False
    if hasattr(model_config, "apply_spec_augment"):
        model_config.apply_spec_augment = False


def _is_set(model_config: Any, field: str) -> bool:
    return getattr(model_config, field, None) is not None


@contextmanager
def _graph_errors(what: str, head: Any) -> Iterator[None]:
    """Convert errors of transformers and torch about a config to a GraphError."""
    try:
        yield
    except MeshwrightError:
        raise
    except Exception as failure:  # transformers documents no exception types
        message = " ".join(str(failure.__cause__ or failure).split())[:400]
        raise GraphError(f"{what} a {head.__name__} of this config: {message}") from failure


@contextmanager
def _without_checks() -> Iterator[None]:
    """No checks of values, such as that a text has as many image tokens as there are features."""
    before = os.environ.get(_NO_CHECKS)
    os.environ[_NO_CHECKS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_CHECKS]
        else:
            os.environ[_NO_CHECKS] = before


def head_of(settings: Mapping[str, Any], model_config: Any) -> Any:
    candidates = list(settings.get("architectures") or [])
    pairs = bool(getattr(model_config, "is_encoder_decoder", False))
    for table in (*_HEADS_OF_PAIRS, *_HEADS) if pairs else _HEADS:
        names = getattr(transformers.models.auto.modeling_auto, table)
        classes = names.get(model_config.model_type, ())
        candidates += [classes] if isinstance(classes, str) else classes
    for candidate in candidates:
        head = getattr(transformers, candidate, None)
        if head is not None and hasattr(head, "_from_config"):
            return head
    raise GraphError(
        f"no model with a loss is known for model_type {model_config.model_type!r}. Name a class "
        "of transformers under architectures"
    )


def attention_of(head: Any) -> str:
    """The attention implementation: "sdpa", one op, if supported, else "eager"."""
    return "sdpa" if getattr(head, "_supports_sdpa", False) else "eager"


def _dtype(settings: Mapping[str, Any]) -> torch.dtype:
    name = settings.get("dtype") or settings.get("torch_dtype") or "bfloat16"
    if name not in _DTYPES:
        raise GraphError(f"the config's dtype {name!r} is none of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def numbers_of(value: Any) -> Iterator[int]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from numbers_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from numbers_of(item)
