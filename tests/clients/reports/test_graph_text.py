"""GraphML and DOT: read back, everything is as it was."""

from __future__ import annotations

import re
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.reports.graph_text import dot_text, graphml_text
from meshwright.reports.plan_graph import plan_graph
from meshwright.schema import Graph
from tests.clients.reports.test_plan_graph import PIPELINES, pinned, planned
from tests.solver.layered import layered
from tests.solver.mixed import beside, kind
from tests.solver.small_graphs import GraphMaker

HOSTILE = [
    'a"b',
    "a\\",
    '\\"',
    "<b>&amp;</b>",
    "']]>",
    "-> x; }",
    "node",
    "Ω 雪 \u0301",
    "a:b",
    " ",
    "%s",
]

# --- a reader of DOT ------------------------------------------------------------------------------

TOKEN = re.compile(
    r"\s*(?:(?P<quoted>\"(?:[^\"\\]|\\.)*\")|(?P<word>[A-Za-z_]\w*)|(?P<sign>->|--|[][{}=;,]))",
    re.DOTALL,
)


def tokens(text: str) -> list[str]:
    found, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        assert match, text[at : at + 60]
        found.append(match[0].strip() if not match["quoted"] else match["quoted"])
        at = match.end()
    return found


def plain(token: str) -> str:
    """A quoted string as it was before it was quoted."""
    assert token[0] == token[-1] == '"'
    return re.sub(r'\\(["\\])', r"\1", token[1:-1])


def parsed(text: str) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, dict[str, str]]]]:
    """Nodes and edges, with their attributes; clusters are read through."""
    words = tokens(text)
    assert words[0] in ("graph", "digraph")
    assert words[2] == "{"
    nodes: dict[str, dict[str, str]] = {}
    edges: list[tuple[str, str, dict[str, str]]] = []
    at, depth = 3, 1
    while depth:
        word = words[at]
        if word == "}":
            depth, at = depth - 1, at + 1
        elif word == "subgraph":
            assert words[at + 2] == "{"
            depth, at = depth + 1, at + 3
        elif words[at + 1] == "=":
            assert words[at + 3] == ";"
            at += 4
        else:
            ends = [word]
            while words[at + 1] in ("->", "--"):
                ends.append(words[at + 2])
                at += 2
            own, at = attributes(words, at + 1)
            if word == "node":
                continue
            if len(ends) == 1:
                nodes[plain(word)] = own
            else:
                edges.append((plain(ends[0]), plain(ends[1]), own))
    assert at == len(words)
    return nodes, edges


def attributes(words: list[str], at: int) -> tuple[dict[str, str], int]:
    own: dict[str, str] = {}
    assert words[at] == "["
    while words[at] != "]":
        key, equals, value = words[at + 1 : at + 4]
        assert equals == "="
        own[key] = plain(value) if value[0] == '"' else value
        at += 4
        assert words[at] in (",", "]")
    assert words[at + 1] == ";"
    return own, at + 2


# --- graphs ---------------------------------------------------------------------------------------


def named(names: list[str]) -> Graph:
    """A chain of ops with these names, the first read twice by each."""
    maker = GraphMaker(batch=2)
    x = maker.input("the input", "batch", 4)
    for name in names:
        x = maker.op("mul", [x, x], ["batch", 4], name, module=name)
    return maker.graph(x)


def every() -> dict[str, nx.Graph]:
    own, graph = pinned()
    stages, sizes, wishes = PIPELINES["two stages"]
    return {
        "graph": layered(2, skip=True).to_networkx(),
        "hostile": named(HOSTILE).to_networkx(),
        "topology": beside(kind("fast", 2, 2), kind('a "b" & <c>', 3)).to_networkx(),
        "plan": plan_graph(own, graph),
        "pipeline": plan_graph(planned(stages, *sizes, **wishes), stages),
    }


@pytest.fixture(scope="module")
def graphs() -> dict[str, nx.Graph]:
    return every()


NAMES = ["graph", "hostile", "topology", "plan", "pipeline"]


@pytest.mark.parametrize("name", NAMES)
def test_graphml_comes_back(graphs: dict[str, nx.Graph], name: str) -> None:
    found = graphs[name]
    again = nx.parse_graphml(graphml_text(found), force_multigraph=found.is_multigraph())
    assert again.is_directed() == found.is_directed()
    assert dict(again.nodes(data=True)) == dict(found.nodes(data=True))
    assert list(again) == list(found)
    assert list(again.edges(data=True)) == list(found.edges(data=True))
    if found.is_multigraph():
        assert list(again.edges(keys=True)) == list(found.edges(keys=True))
    defaults = {"node_default": {}, "edge_default": {}}
    assert again.graph == found.graph | defaults


@pytest.mark.parametrize("name", NAMES)
def test_dot_comes_back(graphs: dict[str, nx.Graph], name: str) -> None:
    found = graphs[name]
    nodes, edges = parsed(dot_text(found))
    assert list(nodes) == list(found)
    for node, own in found.nodes(data=True):
        assert nodes[node].pop("label").split("\n")[0]
        assert nodes[node] == said(own)
    assert len(edges) == found.number_of_edges()
    for (a, b, data), (c, d, own) in zip(edges, found.edges(data=True), strict=True):
        assert (a, b) == (c, d)
        data.pop("label")
        assert data == said(own)


def said(own: dict[str, Any]) -> dict[str, str]:
    plain = {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in own.items()}
    return {key: value for key, value in plain.items() if value}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(min_size=1, max_size=8).filter(str.isprintable), min_size=1, max_size=4, unique=True
    )
)
def test_any_name_comes_back(names: list[str]) -> None:
    found = named(names).to_networkx()
    assert list(nx.parse_graphml(graphml_text(found))) == names
    nodes, _ = parsed(dot_text(found))
    assert list(nodes) == names
    assert [own.get("module") for own in nodes.values()] == names


def test_labels_show_what_graphviz_would_read_otherwise() -> None:
    """Graphviz reads backslashes, quotes and entities in labels."""
    text = dot_text(named(['\\N "x" &lt;']).to_networkx())
    assert r'label="\\N \"x\" &amp;lt;\nmul"' in text


def test_text_that_xml_does_not_take_becomes_a_mark() -> None:
    own, graph = pinned()
    found = plan_graph(own.like(name="bell \a, tab \t, \u2028"), graph)
    again = nx.parse_graphml(graphml_text(found))
    assert again.name == "bell \ufffd, tab \ufffd, \ufffd"
    assert dot_text(found).startswith('digraph "bell \ufffd, tab')


def test_stages_are_clusters_of_a_drawing(graphs: dict[str, nx.Graph]) -> None:
    text = dot_text(graphs["pipeline"])
    assert text.count("subgraph") == 2
    assert 'label="stage 1";' in text
    assert "subgraph" not in dot_text(graphs["plan"])
