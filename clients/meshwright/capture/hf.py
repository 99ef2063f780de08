"""Hugging Face configurations -> Graph, by building the model without weights."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from meshwright.capture.module import capture_module
from meshwright.capture.witness import BATCH_WITNESS
from meshwright.schema import Graph
from meshwright.schema.errors import GraphError, MeshwrightError

_DEFAULT_SEQ = 2048
_SHORT = 128  # chosen: below it, primes that no size of the model is near run out
_HEADS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
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
    config's dtype, bfloat16 if it names none; dropout is off. `seq` is the sequence length of a
    text model, its longest if not given; an image model has none.
    """
    settings, origin = _settings(config)
    built = _built_config(settings)
    head = _head(settings, built)
    dtype = _dtype(settings)
    with _named("cannot build", head), torch.device("meta"):
        model = head._from_config(built, dtype=dtype, attn_implementation=_attention(head))
    model.train()
    pixels = getattr(model, "main_input_name", "input_ids") == "pixel_values"
    symbols = {"batch": batch}
    limits: dict[str, int] = {}
    if not pixels:
        longest = getattr(built.get_text_config(), "max_position_embeddings", None)
        symbols["seq"] = seq or longest or _DEFAULT_SEQ
        if longest and symbols["seq"] > longest:
            raise GraphError(
                f"a sequence of {symbols['seq']} is longer than the model's {longest} positions "
                "(max_position_embeddings)"
            )
        limits["seq"] = _traced_length(symbols["seq"], longest or BATCH_WITNESS)

    def inputs(sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        return _image_inputs(built, sizes, dtype) if pixels else _text_inputs(head, sizes)

    with _named("cannot trace", head):
        graph = capture_module(
            model,
            inputs,
            symbols=symbols,
            limits=limits,
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


def _built_config(settings: Mapping[str, Any]) -> Any:
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
    return built


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


def _head(settings: Mapping[str, Any], built: Any) -> Any:
    named = list(settings.get("architectures") or [])
    for table in _HEADS:
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


def _attention(head: Any) -> str:
    """One op where the model has it so; written out in matmul and softmax otherwise."""
    return "sdpa" if getattr(head, "_supports_sdpa", False) else "eager"


def _dtype(settings: Mapping[str, Any]) -> torch.dtype:
    name = settings.get("dtype") or settings.get("torch_dtype") or "bfloat16"
    if name not in _DTYPES:
        raise GraphError(f"the config's dtype {name!r} is none of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _traced_length(asked: int, longest: int) -> int:
    """The longest sequence to trace at: the one asked for, as some models change beyond it."""
    return asked if asked >= _SHORT else longest


def _text_inputs(head: Any, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    def ids(*names: str) -> torch.Tensor:
        return torch.zeros([sizes[n] for n in names], dtype=torch.long, device="meta")

    inputs = {"input_ids": ids("batch", "seq"), "labels": ids("batch", "seq")}
    parameters = inspect.signature(head.forward).parameters
    if "next_sentence_label" in parameters:
        inputs["next_sentence_label"] = ids("batch")
    if "token_type_ids" in parameters and "next_sentence_label" in parameters:
        inputs["token_type_ids"] = ids("batch", "seq")
    return inputs


def _image_inputs(
    built: Any, sizes: Mapping[str, int], dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    side = built.image_size
    height, width = (side, side) if isinstance(side, int) else side
    shape = (sizes["batch"], built.num_channels, height, width)
    return {
        "pixel_values": torch.zeros(shape, dtype=dtype, device="meta"),
        "labels": torch.zeros((sizes["batch"],), dtype=torch.long, device="meta"),
    }


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
