"""Degrees: a parallel strategy as frameworks state it, in a few numbers for the whole model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictBool, model_validator

from meshwright.schema.errors import RequestError
from meshwright.schema.model import Model, Whole

ZeroStage = Literal[0, 1, 2, 3]


class Degrees(Model):
    """How the devices of a pipeline rank share its work. Ranks are in Megatron-LM's order: tensor
    parallelism fastest, then context, expert and data parallelism.

    dp: into so many parts goes the batch of a microbatch; None = what the others leave. tp: columns
    and rows of weights, and heads. sequence_parallel: between these, activations lie in parts of
    the sequence over the devices of tp. cp: the sequence, attention included. ep: experts; these
    devices are some of those of dp, as everything else is data parallel over them. zero: what is
    sharded over dp and cp: optimizer state (1), gradients too (2), parameters too (3).
    """

    dp: Whole | None = Field(default=None, ge=1)
    tp: Whole = Field(default=1, ge=1)
    cp: Whole = Field(default=1, ge=1)
    ep: Whole = Field(default=1, ge=1)
    zero: ZeroStage = 0
    sequence_parallel: StrictBool = False

    @model_validator(mode="after")
    def _agrees(self) -> Degrees:
        if self.sequence_parallel and self.tp == 1:
            raise RequestError(
                "sequence parallelism lies over the devices of tensor parallelism; with tp 1 there "
                "are none, cp may be what is meant",
                pointer="/sequence_parallel",
            )
        if self.dp is not None and self.dp % self.ep:
            raise RequestError(
                f"ep {self.ep} is a part of dp, but does not divide dp {self.dp}", pointer="/ep"
            )
        return self

    def of_devices(self, count: int) -> Degrees:
        """With dp, on so many devices of a pipeline rank; RequestError where they do not fit."""
        others = self.tp * self.cp
        ways = f"cp {self.cp} × tp {self.tp}" if self.cp > 1 else f"tp {self.tp}"
        if count % others:
            raise RequestError(
                f"{ways} does not divide the {count} devices of a pipeline rank", pointer="/tp"
            )
        dp = self.dp or count // others
        if dp * others != count:
            raise RequestError(
                f"dp {dp} × {ways} make {dp * others} devices, a pipeline rank has {count}",
                pointer="/dp",
            )
        if dp % self.ep:
            raise RequestError(f"ep {self.ep} does not divide dp {dp}", pointer="/ep")
        return self.model_copy(update={"dp": dp})

    def __str__(self) -> str:
        """The degrees that are not 1, e.g. `dp 8, tp 8, zero 1, sequence parallel`."""
        said = [f"{name} {getattr(self, name)}" for name in ("dp", "tp", "cp", "ep")]
        said = [own for own in said if not own.endswith((" 1", " None"))]
        said += [f"zero {self.zero}"] if self.zero else []
        said += ["sequence parallel"] if self.sequence_parallel else []
        return ", ".join(said) or "one device"
