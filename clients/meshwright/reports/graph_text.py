"""GraphML and DOT text of networkx graphs.

Unvalidated text, such as the name of a plan, may hold characters that XML or a terminal does not
accept; U+FFFD replaces them. Names of ops and tensors have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from meshwright.schema.networkx_graphs import load_networkx

if TYPE_CHECKING:
    import networkx as nx

DECLARATION = '<?xml version="1.0" encoding="utf-8"?>\n'
# attributes that a drawing shows under the name of a node, and on an edge
NODE_LABEL = ("kind", "strategy", "device")
EDGE_LABEL = ("layout", "shape", "kind", "collectives")


def graphml_text(graph: nx.Graph) -> str:
    """GraphML for `networkx.parse_graphml`: nodes and keys in order, values with types."""
    readable = graph.__class__(**_printable_values(graph.graph))
    readable.add_nodes_from(
        (node, _printable_values(attributes)) for node, attributes in graph.nodes(data=True)
    )
    if graph.is_multigraph():
        edges = graph.edges(keys=True, data=True)
        readable.add_edges_from(
            (a, b, key, _printable_values(attributes)) for a, b, key, attributes in edges
        )
    else:
        readable.add_edges_from(
            (a, b, _printable_values(attributes)) for a, b, attributes in graph.edges(data=True)
        )
    lines = load_networkx().generate_graphml(readable)
    return DECLARATION + "\n".join(lines) + "\n"


def dot_text(graph: nx.Graph) -> str:
    """DOT text for Graphviz, with all nonempty attributes and with labels.

    Nodes with several values of `stage` are drawn in a cluster per stage.
    """
    return "\n".join(_dot_lines(graph)) + "\n"


def _dot_lines(graph: nx.Graph) -> Iterator[str]:
    kind, arrow = ("digraph", "->") if graph.is_directed() else ("graph", "--")
    yield f"{kind} {_quote(graph.name)} {{"
    yield "  node [shape=box];"
    for key, value in graph.graph.items():
        if key != "name":
            yield f"  {key}={_quote(_text(value))};"
    stages = {attributes.get("stage") for _, attributes in graph.nodes(data=True)}
    for stage in sorted(stages) if len(stages) > 1 else [None]:
        indent = "  " if stage is None else "    "
        if stage is not None:
            yield f'  subgraph "cluster_{stage}" {{'
            yield f'    label="stage {stage}";'
        for node, attributes in graph.nodes(data=True):
            if stage is None or attributes["stage"] == stage:
                label = _label([node, *_values(attributes, NODE_LABEL)])
                yield f"{indent}{_quote(node)} [{_attributes(attributes, label)}];"
        if stage is not None:
            yield "  }"
    for a, b, attributes in graph.edges(data=True):
        label = _label(_values(attributes, EDGE_LABEL))
        yield f"  {_quote(a)} {arrow} {_quote(b)} [{_attributes(attributes, label)}];"
    yield "}"


def _attributes(attributes: Mapping[str, Any], label: str) -> str:
    plain = {key: _text(value) for key, value in attributes.items()}
    texts = (f"{key}={_quote(value)}" for key, value in plain.items() if value)
    return ", ".join([f"label={label}", *texts])


def _values(attributes: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    return [_text(attributes[key]) for key in keys if attributes.get(key)]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _label(lines: Sequence[str]) -> str:
    """A quoted label; Graphviz reads `&name;` in labels as a character."""
    quoted = (_quote(line.replace("&", "&amp;"))[1:-1] for line in lines)
    return '"' + "\\n".join(quoted) + '"'


def _quote(text: str) -> str:
    """A quoted DOT string; backslashes are doubled, because Graphviz interprets some of them."""
    escaped = _printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _printable_values(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _printable(value) if isinstance(value, str) else value
        for key, value in attributes.items()
    }
