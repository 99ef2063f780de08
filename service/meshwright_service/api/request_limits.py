"""What a request may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from meshwright.schema import Graph, TooLarge
from meshwright_service.common.settings import Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one request: its settings are called MESHWRIGHT_MAX_ and the field's name.

    what: the body, or a cost graph, whose numbers take less memory than other values.
    body_values: JSON values; counted as the body's commas and opening brackets, those in strings
    too, before anything is made of them: see meshwright_service.api.body_weight. fields: of one
    object; each unknown field is an error, and takes the memory of one.
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
        """Those of the settings."""
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
        """The same for a body with a cost graph."""
        return replace(
            self,
            body_bytes=settings.max_cost_graph_bytes,
            body_values=settings.max_cost_graph_values,
            what="cost_graph",
        )

    def check_bytes(self, count: int) -> None:
        """Of a body as it arrives, and of what comes of it when it is decoded."""
        if count > self.body_bytes:
            raise TooLarge(
                f"the body has more than {self.body_bytes:,} bytes once decoded; send a smaller "
                f"graph, or raise {_setting(f'{self.what}_bytes')} on the server"
            )

    def check_values(self, count: int) -> None:
        """Of JSON that nobody has read yet."""
        if count > self.body_values:
            raise TooLarge(
                f"the body has more than {self.body_values:,} values; send a smaller graph, or "
                f"raise {_setting(f'{self.what}_values')} on the server"
            )

    def check_json(self, value: Any) -> None:
        """Fields, nesting and strings; the pointer leads to what is too large, deep or long."""
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
                    below += item  # names are strings too
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
        """Ops and edges: of an op, each input and each output is one."""
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


def _where(value: Any, is_it: Callable[[Any, int], bool]) -> str:
    """The JSON pointer of the first value of which this is so, or of the object that it names."""
    left: list[tuple[Any, str, int]] = [(value, "", 0)]
    while left:
        item, pointer, depth = left.pop()
        if is_it(item, depth):
            return pointer
        if isinstance(item, dict):
            if any(is_it(name, depth) for name in item):
                return pointer
            below = [(own, _escaped(name)) for name, own in item.items()]
        elif isinstance(item, list):
            below = [(own, str(index)) for index, own in enumerate(item)]
        else:
            continue
        left += [(own, f"{pointer}/{name}", depth + 1) for own, name in reversed(below)]
    return ""


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _setting(field: str) -> str:
    return f"MESHWRIGHT_MAX_{field.upper()}"
