"""Limits of request bodies and of the documents in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from meshwright.schema import Graph, TooLarge
from meshwright_service.common.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request. The setting of a field is MESHWRIGHT_MAX_ and its name.

    what: a body, or a cost graph, whose numbers take less memory than other values.
    body_values: JSON values, estimated before parsing as the commas and opening brackets of the
    body; see meshwright_service.api.body_weight. fields: of one object, because each unknown field
    creates an error.
    """

    body_bytes: int
    body_values: int
    fields: int
    nesting: int
    string_chars: int
    ops: int
    edges: int
    what: Literal["body", "cost_graph"] = "body"

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The limits of the settings."""
        return cls(
            settings.max_body_bytes,
            settings.max_body_values,
            settings.max_fields,
            settings.max_nesting,
            settings.max_string_chars,
            settings.max_ops,
            settings.max_edges,
        )

    def of_cost_graph(self, settings: Settings) -> Limits:
        """These limits for a body with a cost graph."""
        return replace(
            self,
            body_bytes=settings.max_cost_graph_bytes,
            body_values=settings.max_cost_graph_values,
            what="cost_graph",
        )

    def check_bytes(self, count: int) -> None:
        """Check the length of a body, as sent or decoded; raises TooLarge."""
        if count > self.body_bytes:
            raise TooLarge(
                f"the body has more than {self.body_bytes:,} bytes once decoded; send a smaller "
                f"graph, or raise {_setting(f'{self.what}_bytes')} on the server"
            )

    def check_values(self, count: int) -> None:
        """Check the estimated number of JSON values; raises TooLarge."""
        if count > self.body_values:
            raise TooLarge(
                f"the body has more than {self.body_values:,} values; send a smaller graph, or "
                f"raise {_setting(f'{self.what}_values')} on the server"
            )

    def check_json(self, value: Any) -> None:
        """Check fields, nesting and strings; raises TooLarge with a pointer to the value."""
        level, depth = [value], 0
        while level:
            depth += 1
            below: list[Any] = []
            for item in level:
                kind = type(item)
                if kind is dict:
                    if len(item) > self.fields:
                        raise TooLarge(
                            f"an object has {len(item):,} fields, more than the {self.fields:,} "
                            f"of {_setting('fields')}",
                            pointer=_where(value, _same_as(item)),
                        )
                    below += item.values()
                    below += item  # the field names, which are strings
                elif kind is list:
                    below += item
                elif kind is str and len(item) > self.string_chars:
                    raise TooLarge(
                        f"a string has {len(item):,} characters, more than the "
                        f"{self.string_chars:,} of {_setting('string_chars')}",
                        pointer=_where(value, _same_as(item)),
                    )
            if below and depth > self.nesting:
                raise TooLarge(
                    f"the body is nested deeper than the {self.nesting} levels of "
                    f"{_setting('nesting')}",
                    pointer=_where(
                        value,
                        lambda at, down: down >= self.nesting and isinstance(at, dict | list),
                    ),
                )
            level = below

    def check_graph(self, graph: Graph) -> None:
        """Check the ops and the edges, which are the inputs and outputs of ops; raises TooLarge."""
        if len(graph.ops) > self.ops:
            raise TooLarge(
                f"the graph has {len(graph.ops):,} ops, more than the {self.ops:,} of "
                f"{_setting('ops')}",
                pointer="/ops",
            )
        edges = sum(len(op.inputs) + len(op.outputs) for op in graph.ops)
        if edges > self.edges:
            raise TooLarge(
                f"the ops have {edges:,} inputs and outputs, more than the {self.edges:,} of "
                f"{_setting('edges')}",
                pointer="/ops",
            )


def _same_as(item: object) -> Callable[[Any, int], bool]:
    return lambda at, _: at is item


def _where(value: Any, matches: Callable[[Any, int], bool]) -> str:
    """The JSON pointer of the first value that matches, or of the object whose field name does."""
    pending: list[tuple[Any, str, int]] = [(value, "", 0)]
    while pending:
        item, pointer, depth = pending.pop()
        if matches(item, depth):
            return pointer
        if isinstance(item, dict):
            if any(matches(name, depth) for name in item):
                return pointer
            below = [(child, _escape(name)) for name, child in item.items()]
        elif isinstance(item, list):
            below = [(child, str(index)) for index, child in enumerate(item)]
        else:
            continue
        pending += [(child, f"{pointer}/{name}", depth + 1) for child, name in reversed(below)]
    return ""


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _setting(field: str) -> str:
    return f"MESHWRIGHT_MAX_{field.upper()}"
