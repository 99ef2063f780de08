"""Training inputs of a transformers model: tensors on the meta device, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers.models.auto import modeling_auto

from meshwright.capture.hf_media import Media
from meshwright.schema.errors import GraphError

Sizes = Mapping[str, int]
Feed = Callable[[Sizes], dict[str, Any]]

# fields of configurations that state the longest sequence; -1 without a table of positions
_LENGTHS = ("max_position_embeddings", "max_target_positions", "max_seq_len")
DEFAULT_SEQ = 2048
_SHORT = 128  # chosen: below it, few primes differ from all sizes of the model
_LISTED = 211  # chosen: images that a model may handle as a list, one op each
_PIXELWISE = "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES"
_DEFAULT_SAMPLES = 160_000  # chosen: ten seconds at 16 kHz, the default length


class HeadInputs:
    """The inputs of one head, and their symbolic sizes.

    symbols: `batch`, and `seq` for a head that reads text. limits: as in `capture_module`.
    """

    def __init__(
        self,
        head: Any,
        config: Any,
        dtype: torch.dtype,
        *,
        batch: int,
        seq: int | None,
        model: Any = None,
    ) -> None:
        self._head, self._config, self._dtype = head, config, dtype
        if model is None:
            with torch.device("meta"):
                model = head._from_config(config, dtype=dtype)
        self._model = model
        self.media = Media(head, config, dtype, model)
        self._parameters = inspect.signature(head.forward).parameters
        self._main = getattr(head, "main_input_name", "input_ids")
        self._samples = seq or _DEFAULT_SAMPLES
        self.symbols = {"batch": batch}
        self.limits: dict[str, int] = {}
        if self.media.tokens is not None:
            self.limits["batch"] = _LISTED
        if self._reads_text:
            self._take_length(seq)

    def __call__(self, sizes: Sizes) -> dict[str, Any]:
        """The forward's arguments at these sizes."""
        arguments: dict[str, Any] = {}
        if self._main == "input_features":
            arguments["input_features"] = self._features(sizes)
        if self._main == "input_values":
            arguments["input_values"] = self._sound(sizes)
        if self._reads_text and "input_features" not in arguments:
            arguments["input_ids"] = _ids(sizes, "batch", "seq")
        if "pixel_values" in self._parameters:
            arguments["pixel_values"] = self.media.pixels(sizes)
        if self.is_contrastive:
            return {**arguments, "return_loss": True}
        if "labels" in self._parameters:
            arguments["labels"] = self._labels(sizes)
        if "next_sentence_label" in self._parameters:
            arguments["next_sentence_label"] = _ids(sizes, "batch")
            arguments["token_type_ids"] = _ids(sizes, "batch", "seq")
        if self.media.tokens is not None and "token_type_ids" in self._parameters:
            arguments["token_type_ids"] = _ids(sizes, "batch", "seq")
        if hasattr(getattr(self._model, "model", None), "get_rope_index"):
            arguments["position_ids"] = _ids({**sizes, "axes": 3}, "axes", "batch", "seq")
        return arguments

    def _labels(self, sizes: Sizes) -> torch.Tensor:
        if self._reads_text:
            return _ids(sizes, "batch", "seq")
        if self._head.__name__ in _names(_PIXELWISE):
            height, width = self.media.pixels(sizes).shape[-2:]
            return _ids({**sizes, "h": height, "w": width}, "batch", "h", "w")
        return _ids(sizes, "batch")

    @property
    def constants(self) -> tuple[int, ...]:
        """Numbers of the inputs that are no symbols: the tokens of an image."""
        return self.media.tokens or ()

    @property
    def left_out(self) -> list[str]:
        """Inputs for sound that the head could read besides its text, and capture does not feed."""
        sounds = ("input_features", "input_values")
        return [name for name in sounds if name in self._parameters and name != self._main]

    @property
    def is_contrastive(self) -> bool:
        return "return_loss" in self._parameters

    @property
    def _reads_text(self) -> bool:
        """Whether the model reads text or decodes it."""
        if self.is_contrastive or "decoder_input_ids" in self._parameters:
            return True
        return self._main == "input_ids" or (
            "pixel_values" in self._parameters and "input_ids" in self._parameters
        )

    def _take_length(self, seq: int | None) -> None:
        text = self._config.get_text_config()
        stated = {name: getattr(text, name, None) or -1 for name in _LENGTHS}
        field, longest = next(((n, size) for n, size in stated.items() if size > 0), ("", None))
        self.symbols["seq"] = seq or longest or DEFAULT_SEQ
        if longest and self.symbols["seq"] > longest:
            raise GraphError(
                f"a sequence of {self.symbols['seq']} is longer than the model's {longest} "
                f"positions ({field})"
            )
        if longest:
            self.limits["seq"] = _traced_length(self.symbols["seq"], longest)
        if self.media.tokens is not None and self.media.tokens[1] > self.symbols["seq"]:
            raise GraphError(
                f"a sequence of {self.symbols['seq']} does not hold the {self.media.tokens[1]} "
                "tokens of an image. State a longer one"
            )

    def _features(self, sizes: Sizes) -> torch.Tensor:
        """The frames of a spectrogram, which the first convolutions halve."""
        shape = (
            sizes["batch"],
            self._config.num_mel_bins,
            2 * self._config.max_source_positions,
        )
        return torch.zeros(shape, dtype=self._dtype, device="meta")

    def _sound(self, sizes: Sizes) -> torch.Tensor:
        return torch.zeros((sizes["batch"], self._samples), dtype=self._dtype, device="meta")


def _names(table: str) -> set[str]:
    """The classes of a table of transformers' heads."""
    listed = getattr(modeling_auto, table).values()
    return {name for one in listed for name in ([one] if isinstance(one, str) else one)}


def _traced_length(requested: int, longest: int) -> int:
    """The maximum traced length: the requested one, because some models change beyond it."""
    return requested if requested >= _SHORT else longest


def _ids(sizes: Sizes, *names: str) -> torch.Tensor:
    return torch.zeros([sizes[n] for n in names], dtype=torch.long, device="meta")
