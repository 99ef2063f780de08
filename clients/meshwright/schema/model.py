"""The base of every document of the contract: frozen, strict about its fields, valid from birth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
)
from pydantic_core import ErrorDetails
from typing_extensions import Self

from meshwright.schema.canonical import MAX_NESTING, digest_of_text, read_object
from meshwright.schema.collector import uncollected
from meshwright.schema.errors import InvalidInput, MeshwrightError
from meshwright.schema.writing import written, written_canonically

D = TypeVar("D", bound="Document")
MAX_LINE = 512  # characters; chosen: longer than any module path
BRANCHES = 8  # chosen: more than any field has types to choose among


def _one_line(text: str) -> str:
    if len(text) > MAX_LINE or not text.isprintable():
        half = any("\ud800" <= character <= "\udfff" for character in text[:MAX_LINE])
        if half:
            raise ValueError("holds half of a character (a lone surrogate)")
        raise ValueError(f"must have at most {MAX_LINE} printable characters")
    return text


# text that stands in a line of a table or a page: no newline, no control sequence of a terminal
Line = Annotated[str, AfterValidator(_one_line)]


def _whole(value: object) -> object:
    if isinstance(value, bool | str):
        raise ValueError("expected a whole number")
    return value


# pydantic reads true as 1 and "64" as 64: nobody who writes these means a number
Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, Strict()]
Ns = Annotated[Number, Field(ge=0)]


class Model(BaseModel):
    """A frozen value; unknown fields and non-finite numbers are refused.

    naming: fields of text in which items of one list differ that say the same otherwise.
    """

    naming: ClassVar[tuple[str, ...]] = ()

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=False, validate_default=False
    )

    def like(self, **changes: Any) -> Self:
        """This value with other content in some fields, which nobody checks.

        `model_copy` in a third of its time, for the hundreds of thousands of items of a large plan.
        """
        return self.likes([changes])[0]

    def likes(self, every: Iterable[Mapping[str, Any]]) -> list[Self]:
        """One like this for each of these changes."""
        kind, own, given = type(self), self.__dict__, self.__pydantic_fields_set__
        make, fill = object.__new__, object.__setattr__
        found = []
        for changes in every:
            one = make(kind)
            fill(one, "__dict__", {**own, **changes})
            fill(one, "__pydantic_fields_set__", given)
            fill(one, "__pydantic_extra__", None)
            fill(one, "__pydantic_private__", None)
            found.append(one)
        return found


class Document(Model):
    """A value with an identity of its own: read from JSON, named by the digest of its content.

    `error` is the class raised when a document of this kind is wrong; `prefix` begins its id.
    """

    prefix: ClassVar[str] = "doc"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    @property
    def id(self) -> str:
        """The content-addressed id; computed once."""
        cached: str | None = self.__dict__.get("_id")
        if cached is None:
            cached = digest_of_text(self.prefix, written_canonically(self))
            self.__dict__["_id"] = cached
        return cached

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Without what was worked out from the content that the update replaces, the id first."""
        found = super().model_copy(update=update, deep=deep)
        for name in [name for name in found.__dict__ if name.startswith("_")]:
            del found.__dict__[name]
        return found

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
        """The document in JSON values; raises `cls.error`, or a narrower one, naming the fault."""
        try:
            return cls.model_validate(value)
        except ValidationError as failure:
            raise cls._named(failure, value) from None

    @classmethod
    @uncollected
    def from_json(cls: type[D], text: str | bytes) -> D:
        """The document in JSON text; raises `cls.error` naming what is wrong."""
        try:
            value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=read_object)
        except RecursionError:
            raise cls.error(f"the JSON is nested deeper than {MAX_NESTING} levels") from None
        except (ValueError, UnicodeDecodeError) as failure:
            raise cls.error(f"this is not JSON: {failure}") from None
        if not isinstance(value, dict):
            raise cls.error(f"expected a JSON object, got a {type(value).__name__}")
        return cls.from_dict(value)

    @classmethod
    def _named(cls, failure: ValidationError, value: object) -> MeshwrightError:
        errors = failure.errors(include_url=False, include_input=True)
        first = errors[0]
        cause = first.get("ctx", {}).get("error")
        pointer = _pointer(first, value)
        if isinstance(cause, MeshwrightError):
            return type(cause)(cause.detail, pointer=cause.pointer or pointer)
        if first["loc"][-1:] == ("schema_version",):
            return cls.error(
                f"{pointer}: a document of schema version {first['input']!r:.40}; this Meshwright "
                "reads version 1, a newer one may read it",
                pointer=pointer,
            )
        if first["type"] == "extra_forbidden":
            return cls.error(
                f"{pointer}: an unknown field, which a newer Meshwright may know", pointer=pointer
            )
        found = repr(first["input"])
        found = found if len(found) <= 80 else found[:77] + "..."
        # where several types would do, each says what it misses
        said = {e["msg"]: None for e in errors[:BRANCHES] if _pointer(e, value) == pointer}
        return cls.error(f"{pointer or '/'}: {' or: '.join(said)}, got {found}", pointer=pointer)


def _pointer(error: ErrorDetails, value: object) -> str:
    """Where in `value` an error is; pydantic also names the types that it tried there."""
    parts = error["loc"]
    kept: list[int | str] = []
    for place, part in enumerate(parts):
        if isinstance(value, Mapping) and part in value:
            kept.append(part)
            value = value[part]
        elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(part, int):
            kept.append(part)
            value = value[part] if part < len(value) else None
        elif error["type"] == "missing" and place == len(parts) - 1:
            kept.append(part)
    return "".join(f"/{_escaped(part)}" for part in kept)


def _escaped(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"numbers must be finite, found {name}")
