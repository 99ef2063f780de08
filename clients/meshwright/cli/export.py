"""`meshwright export`: a plan in the words of PyTorch, JAX or MindSpore, as launch options, or as a
graph file; graphs and topologies as graph files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, get_args

import typer

from meshwright.cli.consoles import notices
from meshwright.cli.documents import kind_of
from meshwright.cli.output import writable
from meshwright.cli.stored import SERVER, plan_of
from meshwright.common.example_graphs import located
from meshwright.common.files import read_document, read_text, write_whole
from meshwright.exports import GRAPH_FORMATS, EveryTarget, Exported, exported, exported_graph
from meshwright.schema import Graph, RequestError, Topology
from meshwright.schema.errors import CannotExport
from meshwright.schema.target import TARGETS


def export(
    plan: Annotated[
        str,
        typer.Argument(
            help="Plan file; with --server the id of a plan. For graphml and dot also a graph or "
            "topology file."
        ),
    ],
    to: Annotated[
        EveryTarget | None,
        typer.Option(help="Format of the export. Default: the target of the plan's search."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write.", callback=writable)
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Write what fits, though it does not describe the plan."),
    ] = False,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has it.", envvar=SERVER)
    ] = None,
) -> None:
    """Export a plan: layouts, launch options or graphs.

    \b
    dtensor, jax, mindspore: the layouts of all tensors, as JSON.
    mindspore-network, mindspore-strategies: strategies of a captured MindSpore
      network, or MindSpore's own strategy file.
    megatron-core, torchtitan, fsdp2, accelerate, deepspeed, mindformers: the
      arguments, script or configuration file of the framework.
    graphml, dot: ops with strategies and costs, tensors with layouts.

    Standard error lists each part of the plan that the target cannot express. In that case nothing
    is written and the exit code is 2, unless --partial is given.
    """
    written = _exported(server, plan, to)
    _tell(written)
    if written.missing and not partial:
        raise CannotExport(
            f"{written.target} does not describe this plan; the {len(written.missing)} "
            "difference(s) are named above. Use --partial to write what fits"
        )
    if output is None:
        sys.stdout.write(written.text)
    else:
        write_whole(output, written.text)


def _exported(server: str | None, plan: str, to: EveryTarget | None) -> Exported:
    if to in GRAPH_FORMATS and (path := located(Path(plan))).is_file():
        kind = kind_of(read_text(path))
        if kind is Graph:
            return exported_graph(read_document(path, Graph), to)
        if kind is Topology:
            return exported_graph(read_document(path, Topology), to)
    found = plan_of(server, plan)
    to = to or found.plan.wishes.target
    if to is None:
        raise RequestError(
            f"the plan was searched without a target. Use --to with one of "
            f"{', '.join(get_args(EveryTarget))}"
        )
    return exported(found.plan, to, graph=found.graph, setup=found.setup)


def _tell(written: Exported) -> None:
    console = notices()
    absent = f"{'lost' if written.target in TARGETS else 'not'} in {written.target}"
    for said in (
        *(f"{absent}: {reason}" for reason in written.missing),
        *written.remarks,
        written.summary,
    ):
        console.print(said, markup=False, soft_wrap=True)
