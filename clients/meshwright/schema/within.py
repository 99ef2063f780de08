"""Where a fault stands: a part of a model says it within itself, the model where the part is."""

from __future__ import annotations

from pydantic import ValidationInfo, ValidatorFunctionWrapHandler

from meshwright.schema.errors import MeshwrightError


def said_where(
    value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> object:
    """A wrapping validator: what is wrong within a field is said to be there."""
    try:
        return handler(value)
    except MeshwrightError as error:
        raise error.within(f"/{info.field_name}") from None
