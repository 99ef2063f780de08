"""Training inputs of a transformers model: tensors on the meta device, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from meshwright.schema.errors import GraphError

Sizes = Mapping[str, int]
Feed = Callable[[Sizes], dict[str, Any]]

DEFAULT_SEQ = 2048
_SHORT = 128  # chosen: below it, few primes differ from all sizes of the model
_DEFAULT_SIDE = 224  # published: the side of ImageNet crops, for a configuration without one
_DEFAULT_SAMPLES = 160_000  # chosen: ten seconds at 16 kHz, the default length


class HeadInputs:
    """The inputs of one head, and their symbolic sizes.

    symbols: `batch`, and `seq` for a head that reads text. limits: as in `capture_module`.
    """

    def __init__(
        self, head: Any, config: Any, dtype: torch.dtype, *, batch: int, seq: int | None
    ) -> None:
        self._head, self._config, self._dtype = head, config, dtype
        self._parameters = inspect.signature(head.forward).parameters
        self._main = getattr(head, "main_input_name", "input_ids")
        self._samples = seq or _DEFAULT_SAMPLES
        self.symbols = {"batch": batch}
        self.limits: dict[str, int] = {}
        if self._reads_text:
            self._take_length(seq)

    def __call__(self, sizes: Sizes) -> dict[str, Any]:
        """The forward's arguments at these sizes."""
        arguments: dict[str, Any] = {}
        if self._main in ("pixel_values", "input_features", "input_values"):
            arguments[self._main] = {
                "pixel_values": self._pixels,
                "input_features": self._features,
                "input_values": self._sound,
            }[self._main](sizes)
        if self._reads_text and "input_features" not in arguments:
            arguments["input_ids"] = _ids(sizes, "batch", "seq")
        if self.is_contrastive:
            arguments["pixel_values"] = self._pixels(sizes)
            return {**arguments, "return_loss": True}
        arguments["labels"] = _ids(sizes, *(("batch", "seq") if self._reads_text else ("batch",)))
        if "next_sentence_label" in self._parameters:
            arguments["next_sentence_label"] = _ids(sizes, "batch")
            arguments["token_type_ids"] = _ids(sizes, "batch", "seq")
        return arguments

    @property
    def is_contrastive(self) -> bool:
        return "return_loss" in self._parameters

    @property
    def _reads_text(self) -> bool:
        """Whether the model reads text or decodes it."""
        if self.is_contrastive or "decoder_input_ids" in self._parameters:
            return True
        return self._main == "input_ids"

    def _take_length(self, seq: int | None) -> None:
        text = self._config.get_text_config()
        longest = getattr(text, "max_position_embeddings", None) or getattr(
            text, "max_target_positions", None
        )
        if longest is not None and longest < 0:
            longest = None  # of a model without positions in a table
        self.symbols["seq"] = seq or longest or DEFAULT_SEQ
        if longest and self.symbols["seq"] > longest:
            raise GraphError(
                f"a sequence of {self.symbols['seq']} is longer than the model's {longest} "
                "positions (max_position_embeddings)"
            )
        if longest:
            self.limits["seq"] = _traced_length(self.symbols["seq"], longest)

    def _pixels(self, sizes: Sizes) -> torch.Tensor:
        vision_config = getattr(self._config, "vision_config", self._config)
        side = getattr(vision_config, "image_size", None) or _DEFAULT_SIDE
        height, width = (side, side) if isinstance(side, int) else side
        shape = (sizes["batch"], vision_config.num_channels, height, width)
        return torch.zeros(shape, dtype=self._dtype, device="meta")

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


def _traced_length(requested: int, longest: int) -> int:
    """The maximum traced length: the requested one, because some models change beyond it."""
    return requested if requested >= _SHORT else longest


def _ids(sizes: Sizes, *names: str) -> torch.Tensor:
    return torch.zeros([sizes[n] for n in names], dtype=torch.long, device="meta")
