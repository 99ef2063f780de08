"""What a user fixes of some ops."""

from __future__ import annotations

from typing import Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from meshwright.schema.cuts import Cuts, show_cuts
from meshwright.schema.errors import RequestError
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Model


class Pin(Model):
    """What the user fixes: for every op whose name or module path matches the glob `op`.

    One of three: `strategy`, which axes lie on which factor, all others idle; `inputs` and
    `outputs`, the cuts of every input and of every output, null where one is left open; or
    `data_parallel`. Axes are names of the mesh or of topology levels (a level means all of its
    axes).
    """

    op: str = Field(min_length=1, max_length=512)
    strategy: dict[str, tuple[Axis, ...]] | None = None
    inputs: tuple[Cuts | None, ...] | None = None
    outputs: tuple[Cuts | None, ...] | None = None
    data_parallel: StrictBool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> Pin:
        has_cuts = self.inputs is not None or self.outputs is not None
        said = (self.strategy is not None) + has_cuts + self.data_parallel
        if said != 1:
            raise RequestError(
                f"pin {self.op!r} says {'two things' if said else 'nothing'}: give one of "
                "`strategy`, `inputs` and `outputs`, or `data_parallel`"
            )
        return self

    def __str__(self) -> str:
        """As people type it for `--pin`."""
        if self.data_parallel:
            return f"{self.op}:data_parallel"
        if self.strategy is not None:
            said = ",".join(f"{factor}={'+'.join(axes)}" for factor, axes in self.strategy.items())
            return f"{self.op}:{said}"
        given, made = (_tensors(own) for own in (self.inputs, self.outputs))
        return f"{self.op}:{given}" + (f"->{made}" if made else "")

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = serialize(self)
        return {key: value for key, value in found.items() if value not in (None, False)}


def _tensors(cuts: tuple[Cuts | None, ...] | None) -> str:
    if cuts is None:
        return ""
    return f"({','.join('_' if own is None else show_cuts(own) for own in cuts)})"
