"""JSON pointers of errors: a field adds its name to the pointer of its part's error."""

from __future__ import annotations

from pydantic import ValidationInfo, ValidatorFunctionWrapHandler

from meshwright.schema.errors import MeshwrightError


def error_within_field(
    value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> object:
    """A wrap validator that puts the field's name before the pointer of an error."""
    try:
        return handler(value)
    except MeshwrightError as error:
        raise error.within(f"/{info.field_name}") from None
