"""Parallel degrees: a strategy as frameworks state it, in a few numbers for the whole model."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool, model_validator

from meshwright.schema.errors import InvalidInput, RequestError
from meshwright.schema.model import Model, Whole

ZeroStage = Literal[0, 1, 2, 3]


class Degrees(Model):
    """The parallel degrees of a pipeline rank, as frameworks state a strategy.

    Ranks are in the order of Megatron-LM: tensor parallelism varies fastest, then context,
    expert and data parallelism.
    """

    error: ClassVar[type[InvalidInput]] = RequestError

    dp: Whole | None = Field(
        default=None,
        ge=1,
        description="The degree of data parallelism: the number of parts of the batch of a "
        "microbatch. None: the devices that the other degrees leave.",
    )
    tp: Whole = Field(
        default=1,
        ge=1,
        description="The degree of tensor parallelism: the number of parts of weights and heads.",
    )
    cp: Whole = Field(
        default=1,
        ge=1,
        description="The degree of context parallelism: the number of parts of the sequence, "
        "including attention.",
    )
    ep: Whole = Field(
        default=1,
        ge=1,
        description="The degree of expert parallelism: the number of parts of the experts. These "
        "devices are a part of the dp devices.",
    )
    zero: ZeroStage = Field(
        default=0,
        description="The ZeRO stage over dp and cp. 1: optimizer states are sharded. 2: gradients "
        "as well. 3: parameters as well.",
    )
    sequence_parallel: StrictBool = Field(
        default=False,
        description="Whether activations between tensor-parallel ops are sharded in the sequence "
        "over the tp devices.",
    )

    @model_validator(mode="after")
    def _check(self) -> Degrees:
        if self.sequence_parallel and self.tp == 1:
            raise RequestError(
                "sequence parallelism needs the devices of tensor parallelism, but tp is 1. Use "
                "tp 2 or more, or cp for context parallelism",
                pointer="/sequence_parallel",
            )
        if self.dp is not None and self.dp % self.ep:
            raise RequestError(
                f"ep {self.ep} is a part of dp, but does not divide dp {self.dp}", pointer="/ep"
            )
        return self

    def of_devices(self, count: int) -> Degrees:
        """The degrees with dp, on `count` devices of a pipeline rank.

        Raises RequestError if the degrees do not divide the devices.
        """
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
        terms = [f"{name} {getattr(self, name)}" for name in ("dp", "tp", "cp", "ep")]
        terms = [term for term in terms if not term.endswith((" 1", " None"))]
        terms += [f"zero {self.zero}"] if self.zero else []
        terms += ["sequence parallel"] if self.sequence_parallel else []
        return ", ".join(terms) or "one device"
