"""Inputs of a recurrent layer (`lstm`, `gru`, `rnn`) by name.

    x, weight_ih, weight_hh [, bias_ih, bias_hh] [, weight_hr] [, h0 [, c0]]

x [b, t, i], weight_ih [g h, i], weight_hh [g h, p], biases [g h], weight_hr [p, h], h0 [b, p], c0
[b, h]; g gates: 4 in `lstm`, 3 in `gru`, 1 in `rnn`. p is h without a projection.

Attributes: `bias`, `projection` and `state` say which optional inputs there are; `reverse` runs
from the last step to the first; `nonlinearity` of `rnn` is `tanh` or `relu`. Outputs: y [b, t, p],
the last h [b, p] and, of `lstm`, the last c [b, h]; then, of `lstm` and `gru`, the reserve
[b, t, 5 h or 4 h], which has no values and stands for what the backward pass needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Port = TypeVar("Port")

GATES: Mapping[str, int] = {"lstm": 4, "gru": 3, "rnn": 1}
# chosen: the gates and the cell state (`lstm`), the gates and the recurrent part of the new state
# (`gru`); the backward pass of `rnn` needs y alone
RESERVE: Mapping[str, int] = {"lstm": 5, "gru": 4, "rnn": 0}


@dataclass(frozen=True, slots=True)
class RecurrentInputs(Generic[Port]):
    """The inputs of one recurrent layer; None where it lacks one."""

    x: Port
    weight_ih: Port
    weight_hh: Port
    bias_ih: Port | None
    bias_hh: Port | None
    weight_hr: Port | None
    h0: Port | None
    c0: Port | None

    @classmethod
    def of(
        cls, kind: str, inputs: Sequence[Port], attrs: Mapping[str, Any]
    ) -> RecurrentInputs[Port]:
        """The inputs of a layer of a kind; ValueError if their number is not that of its attrs."""
        present = (True, True, True, *_optional(kind, attrs))
        if sum(present) != len(inputs):
            raise ValueError(f"{kind} with these attributes has {sum(present)} inputs")
        rest = iter(inputs)
        return cls(*(next(rest) if is_present else None for is_present in present))  # type: ignore[arg-type]  # the first three are present

    def weights(self) -> list[Port]:
        """The parameters, in the order of PyTorch."""
        parameters = (
            self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, self.weight_hr,
        )  # fmt: skip
        return [parameter for parameter in parameters if parameter is not None]


def _optional(kind: str, attrs: Mapping[str, Any]) -> tuple[bool, ...]:
    has_bias, has_state = bool(attrs.get("bias")), bool(attrs.get("state"))
    return (
        has_bias,
        has_bias,
        bool(attrs.get("projection")),
        has_state,
        has_state and kind == "lstm",
    )
