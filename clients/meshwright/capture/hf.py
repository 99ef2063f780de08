"""Hugging Face configurations -> Graph, by building the model without weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from meshwright.capture.hf_inputs import HeadInputs
from meshwright.capture.module import capture_module
from meshwright.capture.scans import scans_as_ops
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError, MeshwrightError

# what a model type is usually trained as; encoders come before what transformers can make of them
_HEADS = (
    "MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
)
_HEADS_OF_PAIRS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
)
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def capture_hf(
    config: Mapping[str, Any] | str | Path,
    *,
    batch: int,
    seq: int | None = None,
    name: str | None = None,
) -> Graph:
    """The training graph (forward with labels and loss) of a `config.json`.

    The head is the first of `architectures`, or the model type's usual one. Parameters are of the
    config's dtype, bfloat16 if it names none; dropout and masks on spectrograms are off. `seq` is
    the sequence length of a text model, its longest if not given, for both sides of an encoder and
    a decoder; the samples of a model that hears; an image model has none.
    """
    settings, origin = _settings(config)
    built = built_config(settings)
    head = head_of(settings, built)
    dtype = _dtype(settings)
    with _named("cannot build", head), torch.device("meta"):
        model = head._from_config(built, dtype=dtype, attn_implementation=attention_of(head))
    model.train()
    inputs = HeadInputs(head, built, dtype, batch=batch, seq=seq)
    with _named("cannot trace", head), scans_as_ops(head):
        graph = capture_module(
            model,
            inputs,
            symbols=inputs.symbols,
            limits=inputs.limits,
            constants=list(_numbers(built.to_dict())),
            name=name or settings.get("_name_or_path") or origin or built.model_type,
        )
    if graph.loss is None:
        raise GraphError(f"{head.__name__} gave no loss for the labels it was given")
    return graph


def _settings(config: Mapping[str, Any] | str | Path) -> tuple[dict[str, Any], str]:
    if isinstance(config, Mapping):
        return dict(config), ""
    path = Path(config)
    try:
        read = json.loads(path.read_text())
    except OSError as failure:
        raise GraphError(f"cannot read the config {str(path)!r}: {failure.strerror}") from None
    except ValueError as failure:
        raise GraphError(f"the config {str(path)!r} is not JSON: {failure}") from None
    if not isinstance(read, dict):
        raise GraphError(f"the config {str(path)!r} must hold a JSON object")
    return read, path.stem


def built_config(settings: Mapping[str, Any]) -> Any:
    kept = {key: value for key, value in settings.items() if key != "model_type"}
    model_type = settings.get("model_type")
    if not isinstance(model_type, str):
        raise GraphError("the config names no model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        raise GraphError(
            f"transformers {transformers.__version__} knows no model_type {model_type!r}"
        )
    with _named("cannot build", transformers.CONFIG_MAPPING[model_type]):
        built = transformers.AutoConfig.for_model(model_type, **kept)
    for field in list(vars(built)):
        if "drop" in field and isinstance(getattr(built, field), float):
            setattr(built, field, 0.0)
    if hasattr(built, "use_cache"):
        built.use_cache = False
    if hasattr(built, "apply_spec_augment"):
        built.apply_spec_augment = False
    if getattr(built, "is_encoder_decoder", False) and not _is_set(built, "decoder_start_token_id"):
        # which token it is changes no shape
        built.decoder_start_token_id = getattr(built, "pad_token_id", None) or 0
    return built


def _is_set(built: Any, field: str) -> bool:
    return getattr(built, field, None) is not None


@contextmanager
def _named(what: str, head: Any) -> Iterator[None]:
    """What transformers and torch say of a config that makes no model, as a GraphError."""
    try:
        yield
    except MeshwrightError:
        raise
    except Exception as failure:  # which ones may come is written nowhere
        said = " ".join(str(failure.__cause__ or failure).split())[:400]
        raise GraphError(f"{what} a {head.__name__} of this config: {said}") from failure


def head_of(settings: Mapping[str, Any], built: Any) -> Any:
    named = list(settings.get("architectures") or [])
    pairs = bool(getattr(built, "is_encoder_decoder", False))
    for table in (*_HEADS_OF_PAIRS, *_HEADS) if pairs else _HEADS:
        names = getattr(transformers.models.auto.modeling_auto, table)
        classes = names.get(built.model_type, ())
        named += [classes] if isinstance(classes, str) else classes
    for candidate in named:
        found = getattr(transformers, candidate, None)
        if found is not None and hasattr(found, "_from_config"):
            return found
    raise GraphError(
        f"no model with a loss is known for model_type {built.model_type!r}; name a class of "
        "transformers under architectures"
    )


def attention_of(head: Any) -> str:
    """One op where the model has it so; written out in matmul and softmax otherwise."""
    return "sdpa" if getattr(head, "_supports_sdpa", False) else "eager"


def _dtype(settings: Mapping[str, Any]) -> torch.dtype:
    name = settings.get("dtype") or settings.get("torch_dtype") or "bfloat16"
    if name not in _DTYPES:
        raise GraphError(f"the config's dtype {name!r} is none of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
