"""Pins: shardings of ops that the user fixes."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from meshwright.schema.dim_cuts import Cuts, show_cuts
from meshwright.schema.errors import InvalidInput, RequestError
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Model


class Pin(Model):
    """A pin: a sharding that the user fixes for all ops whose name or module path matches a glob.

    A pin states exactly one of `strategy`, `inputs` with `outputs`, or `data_parallel`. Axes are
    names of mesh axes or of topology levels. A level stands for all of its axes.
    """

    error: ClassVar[type[InvalidInput]] = RequestError

    op: str = Field(
        min_length=1, max_length=512, description="A glob of names or module paths of ops."
    )
    strategy: dict[str, tuple[Axis, ...]] | None = Field(
        default=None,
        description="The mesh axes of each factor of the rule. Axes that are not named stay idle.",
    )
    inputs: tuple[Cuts | None, ...] | None = Field(
        default=None, description="The cuts of every input. null: the search chooses."
    )
    outputs: tuple[Cuts | None, ...] | None = Field(
        default=None, description="The cuts of every output. null: the search chooses."
    )
    data_parallel: StrictBool = Field(
        default=False, description="Whether the ops are data parallel."
    )

    @model_validator(mode="after")
    def _check(self) -> Pin:
        has_cuts = self.inputs is not None or self.outputs is not None
        count = (self.strategy is not None) + has_cuts + self.data_parallel
        if count != 1:
            raise RequestError(
                f"pin {self.op!r} states {'two shardings' if count else 'nothing'}. Give one of "
                "`strategy`, `inputs` and `outputs`, or `data_parallel`"
            )
        return self

    def __str__(self) -> str:
        """The pin in the notation of `--pin`."""
        if self.data_parallel:
            return f"{self.op}:data_parallel"
        if self.strategy is not None:
            text = ",".join(f"{factor}={'+'.join(axes)}" for factor, axes in self.strategy.items())
            return f"{self.op}:{text}"
        inputs, outputs = (_cuts_text(cuts) for cuts in (self.inputs, self.outputs))
        return f"{self.op}:{inputs}" + (f"->{outputs}" if outputs else "")

    @model_serializer(mode="wrap")
    def _serialize_set_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {key: value for key, value in values.items() if value not in (None, False)}


def _cuts_text(tensors: tuple[Cuts | None, ...] | None) -> str:
    if tensors is None:
        return ""
    return f"({','.join('_' if cuts is None else show_cuts(cuts) for cuts in tensors)})"
