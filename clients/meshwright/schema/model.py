"""The base classes of documents: immutable models with strict fields, valid after construction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
)
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic_core import CoreSchema, ErrorDetails
from typing_extensions import Self

from meshwright.schema.brief import Verbatim, brief, brief_value
from meshwright.schema.canonical import MAX_NESTING, digest_of_text, read_object
from meshwright.schema.errors import InvalidInput, MeshwrightError
from meshwright.schema.first_error import end_at_first_error
from meshwright.schema.garbage_collection import uncollected
from meshwright.schema.html_table import html_table
from meshwright.schema.json_writer import written, written_canonically

D = TypeVar("D", bound="Document")
MAX_LINE = 512  # characters; chosen: longer than any module path
BRANCHES = 8  # chosen: more than the alternatives of any field


def _one_line(text: str) -> str:
    if len(text) > MAX_LINE or not text.isprintable():
        half = any("\ud800" <= character <= "\udfff" for character in text[:MAX_LINE])
        if half:
            raise ValueError("has a lone surrogate")
        raise ValueError(f"must have at most {MAX_LINE} printable characters")
    return text


# text in a line of a table or a page: no newline, no control sequence of a terminal
Line = Annotated[str, AfterValidator(_one_line)]


def _whole(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("expected a whole number")
    return value


# pydantic reads true as 1 and "64" as 64, which are more likely mistakes
Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, Strict()]
Ns = Annotated[Number, Field(ge=0)]


class Model(BaseModel):
    """An immutable model that rejects unknown fields and non-finite numbers.

    The constructor, `model_validate` and `model_validate_json` raise `error`, or the error class of
    a part. `naming` lists the text fields in which equal items of a list differ.
    """

    naming: ClassVar[tuple[str, ...]] = ()
    error: ClassVar[type[InvalidInput]] = InvalidInput

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=False, validate_default=False
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        end_at_first_error(schema, cls)
        return schema

    if not TYPE_CHECKING:  # type checkers derive the signature from the fields

        def __init__(self, /, **fields: Any) -> None:
            try:
                self.__pydantic_validator__.validate_python(fields, self_instance=self)
            except ValidationError as failure:
                raise _model_error(type(self), failure, fields, of=type(self).__name__) from None

        # pydantic's core builds the parts of a model without this constructor
        __init__.__pydantic_base_init__ = True

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        try:
            return super().model_validate(obj, **options)
        except ValidationError as failure:
            raise _model_error(cls, failure, obj) from None

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as failure:
            is_not_json = failure.errors()[0]["type"] in ("json_invalid", "json_type")
            raise _model_error(
                cls, failure, None if is_not_json else json.loads(json_data)
            ) from None

    @classmethod
    def model_validate_strings(cls, obj: Any, **options: Any) -> Self:
        try:
            return super().model_validate_strings(obj, **options)
        except ValidationError as failure:
            raise _model_error(cls, failure, obj) from None

    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        for name, value in self._repr_fields():
            yield name, Verbatim(brief_value(value))

    def __repr__(self) -> str:
        return brief(type(self).__name__, self._repr_fields())

    def __str__(self) -> str:
        return repr(self)

    def _repr_fields(self) -> Iterator[tuple[str, Any]]:
        """The fields of the representation: those that are not at their default."""
        for name, field in type(self).model_fields.items():
            if name in self.__dict__ and self.__dict__[name] != field.default:
                yield name, self.__dict__[name]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values in some fields, without validation.

        It has no cached properties of the original, such as the id, which follow from its fields.
        """
        copy = super().model_copy(update=update, deep=deep)
        if update:
            object.__setattr__(copy, "__dict__", copy._values())
        return copy

    def _values(self) -> dict[str, Any]:
        """The values of the fields by name, without cached properties."""
        values, fields = self.__dict__, self.__pydantic_fields__
        if len(values) <= len(fields):
            return values
        return {name: value for name, value in values.items() if name in fields}

    def like(self, **changes: Any) -> Self:
        """A copy with other values in some fields, without validation.

        It takes a third of the time of `model_copy`, for the many items of a large plan.
        """
        return self.likes([changes])[0]

    def likes(self, every: Iterable[Mapping[str, Any]]) -> list[Self]:
        """One copy for each of these changes, without validation."""
        kind, values, fields_set = type(self), self._values(), self.__pydantic_fields_set__
        new, assign = object.__new__, object.__setattr__
        copies = []
        for changes in every:
            copy = new(kind)
            assign(copy, "__dict__", {**values, **changes})
            assign(copy, "__pydantic_fields_set__", fields_set)
            assign(copy, "__pydantic_extra__", None)
            assign(copy, "__pydantic_private__", None)
            copies.append(copy)
        return copies


class Document(Model):
    """A JSON document with a content-addressed id.

    `error` is the class of errors of this kind of document, `prefix` the beginning of its id.
    """

    prefix: ClassVar[str] = "doc"

    @property
    def id(self) -> str:
        """The content-addressed id; computed once."""
        cached: str | None = self.__dict__.get("_id")
        if cached is None:
            cached = digest_of_text(self.prefix, written_canonically(self))
            self.__dict__["_id"] = cached
        return cached

    def _repr_fields(self) -> Iterator[tuple[str, Any]]:
        yield "id", self.id
        yield from (field for field in super()._repr_fields() if field[0] != "schema_version")

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        return html_table(type(self).__name__, self._html_rows())

    def _html_rows(self) -> Iterator[tuple[str, str]]:
        """The rows of the table: those of the representation."""
        for name, value in self._repr_fields():
            yield name, value if isinstance(value, str) else brief_value(value)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy without cached values, such as the id, which depend on the content."""
        copy = super().model_copy(update=update, deep=deep)
        for name in [name for name in copy.__dict__ if name.startswith("_")]:
            del copy.__dict__[name]
        return copy

    @uncollected
    def to_dict(self) -> dict[str, Any]:
        """The document as JSON values, without fields at their default."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @uncollected
    def to_json(self) -> str:
        """The document as JSON text."""
        return written(self)

    @classmethod
    @uncollected
    def from_dict(cls: type[D], value: Mapping[str, Any]) -> D:
        """The document from JSON values; raises `cls.error` or the error class of a part."""
        return cls.model_validate(value)

    @classmethod
    @uncollected
    def from_json(cls: type[D], text: str | bytes) -> D:
        """The document from JSON text; raises `cls.error` or the error class of a part."""
        try:
            value = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=read_object)
        except RecursionError:
            raise cls.error(f"the JSON is nested deeper than {MAX_NESTING} levels") from None
        except (ValueError, UnicodeDecodeError) as failure:
            raise cls.error(f"this is not JSON: {failure}") from None
        if not isinstance(value, dict):
            raise cls.error(f"expected a JSON object, got a {type(value).__name__}")
        return cls.from_dict(value)


def _model_error(
    kind: type[Model], failure: ValidationError, value: object, *, of: str = ""
) -> MeshwrightError:
    """The first validation error as an error of the model.

    With the name of a class in `of`, the message names fields as its attributes, otherwise as JSON
    pointers.
    """
    errors = failure.errors(include_url=False, include_input=True)
    first = errors[0]
    cause = first.get("ctx", {}).get("error")
    pointer = _pointer(first, value)
    if isinstance(cause, MeshwrightError):
        return type(cause)(cause.detail, pointer=cause.pointer or pointer)
    where = of + pointer.replace("/", ".") if of else pointer
    if first["loc"][-1:] == ("schema_version",):
        detail = (
            f"a document of schema version {first['input']!r:.40}; this Meshwright reads version "
            "1, a newer one may read it"
        )
    elif first["type"] == "extra_forbidden":
        detail = "an unknown field, which a newer Meshwright may know"
        if len(first["loc"]) == 1:
            near = get_close_matches(str(first["loc"][0]), kind.model_fields, 1)
            detail += f". Use {near[0]}" if near else f". Use {', '.join(kind.model_fields)}"
    else:
        text = repr(first["input"])
        text = text if len(text) <= 80 else text[:77] + "..."
        # each alternative type of a field has a message
        messages = {e["msg"]: None for e in errors[:BRANCHES] if _pointer(e, value) == pointer}
        causes = " or: ".join(message.removeprefix("Value error, ") for message in messages)
        where = where or "/"
        detail = f"{causes}, got {text}"
    error = kind.error(f"{where}: {detail}", pointer=pointer)
    error.fault = first["type"]
    return error


def _pointer(error: ErrorDetails, value: object) -> str:
    """The JSON pointer of an error in `value`, without the types in pydantic's location."""
    parts = error["loc"]
    tokens: list[int | str] = []
    for place, part in enumerate(parts):
        if isinstance(value, Mapping) and part in value:
            tokens.append(part)
            value = value[part]
        elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(part, int):
            tokens.append(part)
            value = value[part] if part < len(value) else None
        elif error["type"] == "missing" and place == len(parts) - 1:
            tokens.append(part)
    return "".join(f"/{_escape(token)}" for token in tokens)


def _escape(token: int | str) -> str:
    return str(token).replace("~", "~0").replace("/", "~1")


def _reject_constant(name: str) -> float:
    raise ValueError(f"numbers must be finite, got {name}")
