"""What is asked of a service and read from its answers, apart from how it is sent.

An exchange is a generator: it yields a Call or a Stream, is sent the answer, and returns what the
caller asked for. `blocking` and `awaiting` carry exchanges out; nothing here sends anything.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, TypeVar

import httpx

from meshwright.client.problems import error_of
from meshwright.schema import Document, RequestError, Unavailable
from meshwright.schema.brief import brief_value

COMPRESS_FROM = 4096  # bytes; chosen
AWAY = (502, 503, 504)  # what a service, or a proxy before it, answers while it cannot
R = TypeVar("R")
Hear = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request.

    tag: the ETag of what the caller has. again: when it may be sent once more: `always` where twice
    is no more than once; `keyed`, the same under an Idempotency-Key; `unreached` only where nobody
    was reached.
    """

    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    tag: str | None = None
    again: Literal["always", "keyed", "unreached"] = "always"

    def content(self) -> tuple[bytes | None, dict[str, str]]:
        """The body as it is sent, and the headers that say what it is."""
        headers = {} if self.tag is None else {"If-None-Match": f'"{self.tag}"'}
        if self.body is None:
            return None, headers
        headers["Content-Type"] = "application/json"
        content = json.dumps(self.body, separators=(",", ":"), allow_nan=False).encode()
        if len(content) >= COMPRESS_FROM:
            headers["Content-Encoding"] = "gzip"
            content = gzip.compress(content, compresslevel=5, mtime=0)
        return content, headers

    def params(self) -> dict[str, Any]:
        """What follows the path, without what is None."""
        return {name: value for name, value in self.query.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of server-sent events.

    hear: called with each line as it arrives; says whether that is enough. A stream is asked for
    once: Unavailable is raised in the exchange where it cannot be had or breaks off.
    """

    path: str
    headers: Mapping[str, str]
    hear: Hear


def is_stream(response: httpx.Response) -> bool:
    """Whether an answer is a stream of events, and no problem and no page of a proxy."""
    kind = response.headers.get("content-type", "")
    return response.is_success and kind.startswith("text/event-stream")


Exchange = Generator[ApiCall | Stream, httpx.Response, R]


def asked(call: ApiCall) -> Exchange[dict[str, Any]]:
    """The JSON object that answers; raises what the service answers as an error."""
    return value_of((yield call))


def got(path: str, **query: Any) -> Exchange[dict[str, Any]]:
    """The JSON object at a path."""
    return (yield from asked(ApiCall("GET", path, query)))


def posted(
    path: str, body: Mapping[str, Any] | None = None, **query: Any
) -> Exchange[dict[str, Any]]:
    """What answers a write that does no more when it is sent twice."""
    return (yield from asked(ApiCall("POST", path, query, body)))


def deleted(path: str) -> Exchange[None]:
    """Nothing, once what is at a path is deleted; raises what the service answers as an error."""
    response = yield ApiCall("DELETE", path, again="unreached")
    if response.status_code != 204:
        value_of(response)


def value_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer; raises the problem that it is."""
    try:
        value = response.json()
    except ValueError:
        value = None
    if isinstance(value, dict):
        if response.is_success:
            return value
        if "problem+json" in response.headers.get("content-type", ""):
            raise error_of(value)
    url = response.request.url
    origin = f"{url.scheme}://{url.netloc.decode()}"
    if response.status_code in AWAY:
        raise Unavailable(f"{origin} answers {response.status_code}: the service is away")
    raise Unavailable(f"{origin} answers, but not as a Meshwright service does")


def sent(part: Document | str) -> Any:
    """A document, or its id, as a part of a body."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Document):
        raise RequestError(
            f"a document or its id was expected, got the {type(part).__name__} {brief_value(part)}."
            " Use `from_dict` of the document's class"
        )
    return part.to_dict()


def moment(at: datetime | None) -> str | None:
    """A time as queries have it; one without a zone is this machine's."""
    return None if at is None else at.astimezone(timezone.utc).isoformat()


def segment(id_: str) -> str:
    """An id as a part of a path; what is no id stays one segment and is not found."""
    return "".join(c if c.isalnum() or c == "_" else "-" for c in id_) or "-"
