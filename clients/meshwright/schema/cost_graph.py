"""Cost graphs of other compilers, and their solutions.

The file format is that of the contest "Intra-Operator Parallelism for Distributed Deep Learning"
(ASPLOS 2025, github.com/google/iopddl), in which XLA's auto-sharding writes its problems:

    choose one strategy s[n] of every node n so that

        cost(s) = sum over nodes n of costs[n][s[n]]
                + sum over edges e = (a, b) of costs[e][s[a] * strategies(b) + s[b]]

    is least, while at every time t the nodes n with lo[n] <= t < hi[n] use at most usage_limit:

        usage(s, t) = sum of usages[n][s[n]] over those nodes

All numbers are doubles: whole numbers are exact up to 2^53. A cost of FORBIDDEN_FROM or more rules
out its strategy or pair of strategies.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, Strict, model_validator

from meshwright.schema.errors import InvalidInput, TooLarge
from meshwright.schema.garbage_collection import uncollected
from meshwright.schema.model import Document, Line, Model, Number

FORBIDDEN_FROM = 1e17  # published: the contest's infinity is 1e18, its costs stay below 1e13
MAX_NUMBERS = 50_000_000  # chosen: 1.6 GB; contest instances have up to 6 million
MAX_TIME = 2**62  # chosen: differences stay within 64 bits

CostGraphEngine = Literal["auto", "elimination", "message_passing", "lagrangian", "exact"]
SolutionStatus = Literal["optimal", "feasible", "infeasible", "unknown"]

F = TypeVar("F", bound="CostGraphFile")

TableCost = Annotated[float, Strict(), Field(ge=-FORBIDDEN_FROM)]
TableUsage = Annotated[float, Strict(), Field(ge=0, le=FORBIDDEN_FROM)]
Limit = Annotated[float, Strict(), Field(ge=0)]
Time = Annotated[int, Strict(), Field(ge=-MAX_TIME, le=MAX_TIME)]
NodeNumber = Annotated[int, Strict(), Field(ge=0)]

# the valid entries of a table, by its place in the file
REMEDIES = {
    "nodes/intervals": "Use two whole numbers, the start and the end",
    "nodes/costs": "Use a number from -1e17, and 1e18 where the strategy is forbidden",
    "nodes/usages": "Use a number from 0 to 1e17",
    "edges/nodes": "Use the numbers of two nodes",
    "edges/costs": "Use a number from -1e17, and 1e18 where the pair is forbidden",
    "usage_limit": "Use a number from 0, or leave it out",
}


class _ContestModel(Model):
    """A part of a file of other programs. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class CostGraphNodes(_ContestModel):
    """The nodes, column by column; all columns have one entry for each node."""

    intervals: tuple[tuple[Time, Time], ...] = Field(
        description="[lo, hi] of each node: it uses memory at the times lo <= t < hi, and none "
        "where lo equals hi."
    )
    costs: tuple[tuple[TableCost, ...], ...] = Field(
        description="The cost of each strategy of each node; 1e17 or more forbids the strategy."
    )
    usages: tuple[tuple[TableUsage, ...], ...] = Field(
        description="The memory that each strategy of each node uses while the node is live."
    )


class CostGraphEdges(_ContestModel):
    """The edges, column by column. Parallel edges add up."""

    nodes: tuple[tuple[NodeNumber, NodeNumber], ...] = Field(
        description="[a, b] of each edge: the numbers of the two nodes that it joins, from 0."
    )
    costs: tuple[tuple[TableCost, ...], ...] = Field(
        description="The cost of each pair of strategies of each edge, row-major: strategy s of a "
        "and t of b at s * strategies(b) + t; 1e17 or more forbids the pair."
    )


class CostGraphProblem(_ContestModel):
    """A choice of one strategy for every node, of least cost, within a limit of memory over time.

    The constructor and `from_json` raise InvalidInput, which names the node or edge at fault.
    """

    name: Line = Field(default="", description="The name that the writer gave the graph.")
    nodes: CostGraphNodes = Field(description="The nodes: lifetimes, costs and usages.")
    edges: CostGraphEdges = Field(
        default=CostGraphEdges(nodes=(), costs=()),
        description="The edges: pairs of nodes, and the costs of their pairs of strategies.",
    )
    usage_limit: Limit | None = Field(
        default=None,
        description="The most memory that all live nodes may use together at any time; no limit "
        "without it.",
    )

    @model_validator(mode="after")
    def _check(self) -> CostGraphProblem:
        nodes, edges = self.nodes, self.edges
        count = len(nodes.costs)
        for name, column in (("intervals", nodes.intervals), ("usages", nodes.usages)):
            if len(column) != count:
                raise _error(
                    f"nodes: costs has {count:,} entries and {name} {len(column):,}. Give each "
                    "node one entry in intervals, costs and usages",
                    f"/nodes/{name}",
                )
        rows = zip(nodes.intervals, nodes.costs, nodes.usages, strict=True)
        for number, ((start, end), costs, usages) in enumerate(rows):
            if start > end:
                raise _error(
                    f"node {number}: the interval ends at {end}, before it starts at {start}. Use "
                    f"[{end}, {start}], or [{start}, {start}] for a node that uses no memory",
                    f"/nodes/intervals/{number}",
                )
            if not costs:
                raise _error(
                    f"node {number}: it has no strategy. Give costs and usages of one at least",
                    f"/nodes/costs/{number}",
                )
            if len(usages) != len(costs):
                raise _error(
                    f"node {number}: {_count(costs, 'cost')} and {_count(usages, 'usage')}. Give "
                    "each strategy a cost and a usage",
                    f"/nodes/usages/{number}",
                )
        if len(edges.nodes) != len(edges.costs):
            raise _error(
                f"edges: nodes has {len(edges.nodes):,} entries and costs {len(edges.costs):,}. "
                "Give each edge one entry in both",
                "/edges/costs",
            )
        strategies = [len(costs) for costs in nodes.costs]
        for number, ((a, b), costs) in enumerate(zip(edges.nodes, edges.costs, strict=True)):
            if max(a, b) >= count:
                most = f"0 to {count - 1:,}" if count else "none, as there are no nodes"
                raise _error(
                    f"edge {number}: there is no node {max(a, b)}. Use node numbers: {most}",
                    f"/edges/nodes/{number}",
                )
            if a == b:
                raise _error(
                    f"edge {number}: it joins node {a} to itself. Add its diagonal to the costs of "
                    "the node",
                    f"/edges/nodes/{number}",
                )
            if len(costs) != strategies[a] * strategies[b]:
                raise _error(
                    f"edge {number}: {_count(costs, 'cost')}, while nodes {a} and {b} have "
                    f"{strategies[a]} and {strategies[b]} strategies. Give it "
                    f"{strategies[a] * strategies[b]:,}, row by row",
                    f"/edges/costs/{number}",
                )
        return self


class CostGraphFile(Document):
    """A file with a cost graph in the format of the contest.

    Reading takes 0.4 s and 400 MB for 33,000 nodes, 47,000 edges and 70 MB of JSON. That is a third
    of the time of `json`, because pydantic's core builds the tables.
    """

    prefix: ClassVar[str] = "costgraph"

    model_config = ConfigDict(extra="ignore")

    problem: CostGraphProblem = Field(description="The cost graph.")

    @classmethod
    @uncollected
    def from_json(cls: type[F], text: str | bytes) -> F:
        """The file in JSON text.

        Raises InvalidInput, which names the node or edge at fault, and TooLarge above MAX_NUMBERS.
        """
        numbers = 1 + (text.count(",") if isinstance(text, str) else text.count(b","))
        if numbers > MAX_NUMBERS:
            raise TooLarge(
                f"a cost graph has at most {MAX_NUMBERS:,} numbers, got {numbers:,}. Leave out "
                "strategies that others dominate"
            )
        try:
            return cls.model_validate_json(text)
        except InvalidInput as failure:
            raise _in_words(failure) from None


class CostGraphProgress(Model):
    """The progress of a search over a cost graph."""

    engine: CostGraphEngine = Field(description="The engine that runs.")
    cost: Number | None = Field(default=None, description="The least cost found, if any.")
    lower_bound: Number | None = Field(
        default=None, description="No choice within the limit costs less, if anything is proved."
    )


class CostGraphSolution(Document):
    """A solution of a cost graph: one strategy for every node, with its bounds.

    Every number of the choice is computed from the file, not taken from the engine.
    """

    prefix: ClassVar[str] = "solution"

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    name: Line = Field(default="", description="The name in the file of the cost graph.")
    status: SolutionStatus = Field(
        description="optimal: proved to cost the least; feasible: within the limit, the gap is "
        "open; infeasible: proved that no choice is within the limit without a forbidden strategy "
        "or pair; unknown: the search ended before it had a choice."
    )
    choice: tuple[int, ...] | None = Field(
        default=None, description="The number of the strategy of each node, from 0, if any."
    )
    cost: Number | None = Field(default=None, description="The cost of the choice.")
    lower_bound: Number | None = Field(
        default=None,
        description="No choice within the limit costs less; absent where nothing is proved.",
    )
    gap: Number | None = Field(
        default=None,
        ge=0,
        description="(cost - lower_bound) / |cost|; absent where nothing is proved, or where the "
        "cost is 0 and the bound is less.",
    )
    peak_usage: Number | None = Field(
        default=None, description="The most memory that the choice uses at any one time."
    )
    peak_time: int | None = Field(
        default=None, description="The first time of the peak; absent where nothing is ever live."
    )
    usage_limit: Number | None = Field(default=None, description="The limit in the file, if any.")
    engines: tuple[CostGraphEngine, ...] = Field(
        default=(), description="The engines that searched, in their order."
    )
    seed: int = Field(default=0, description="The seed of the search.")
    notes: tuple[str, ...] = Field(
        default=(), description="Why the search ended where it did, in sentences for people."
    )


def _error(detail: str, pointer: str) -> InvalidInput:
    return InvalidInput(detail, pointer=f"/problem{pointer}")


def _count(entries: tuple[float, ...], noun: str) -> str:
    return f"{len(entries):,} {noun}{'s' * (len(entries) != 1)}"


def _in_words(failure: InvalidInput) -> InvalidInput:
    """The error with the node or edge in words, and the valid entries of the table."""
    pointer = failure.pointer
    if failure.fault == "json_invalid":
        cause = failure.detail.partition("Invalid JSON: ")[2].partition(", got ")[0]
        return InvalidInput(f"this is not JSON: {cause}")
    place = pointer.removeprefix("/problem").strip("/").split("/")
    detail = failure.detail.removeprefix(f"{pointer or '/'}: ")
    if detail == failure.detail:  # in words already
        return failure
    remedy = REMEDIES.get("/".join(place[:2])) or REMEDIES.get(place[0])
    if remedy is None:
        remedy = "Write {problem: {nodes: {intervals, costs, usages}, edges: {nodes, costs}}}"
    if len(place) > 2:
        item, column = place[0].removesuffix("s"), place[1]
        entry = f", entry {place[3]}" if len(place) > 3 else ""
        detail = f"{item} {place[2]}: {column}{entry}: {detail}"
    else:
        where = " ".join(place) or ("problem" if pointer else "the file")
        detail = f"{where}: {detail}"
    return InvalidInput(f"{detail}. {remedy}", pointer=pointer)
