"""Server-sent events, read line by line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event of a job: a `state`, a `progress`, a `plan`, or in the end the `job` as it is."""

    kind: str
    data: dict[str, Any]


@dataclass
class EventReader:
    """Puts lines together to events.

    on_event: is told of each; says whether it has heard enough. last: the id of the last event,
    behind which another stream goes on. silent: streams, one after another, in which no line came.
    """

    on_event: Callable[[JobEvent], bool]
    last: str = ""
    silent: int = 0
    _kind: str = "message"
    _id: str | None = None
    _data: list[str] = field(default_factory=list)

    def headers(self) -> dict[str, str]:
        """What a stream is asked for with, to go on behind the last event."""
        return {"Last-Event-ID": self.last} if self.last else {}

    def begin(self) -> None:
        """A new stream: what was left of another's last event is none."""
        self.silent += 1
        self._kind, self._id, self._data = "message", None, []

    def hear(self, line: str) -> bool:
        """One line, without its end; whether enough was heard."""
        self.silent = 0
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._kind = value
            case "id":
                self._id = value
            case "data":
                self._data.append(value)
        return False  # comments keep a stream alive

    def _dispatch(self) -> bool:
        kind, id_, data = self._kind, self._id, self._data
        self._kind, self._id, self._data = "message", None, []
        if id_ is not None:
            self.last = id_
        if not data:
            return False
        try:
            value = json.loads("\n".join(data))
        except ValueError:
            return False
        return isinstance(value, dict) and self.on_event(JobEvent(kind, value))
