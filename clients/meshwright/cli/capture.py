"""`meshwright capture`: real programs into graph files. Needs PyTorch, on this machine only."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from meshwright.cli.consoles import notices
from meshwright.files import write_whole
from meshwright.schema import Graph, Unavailable

capture = typer.Typer(help="Capture a model as a graph.", no_args_is_help=True)

Output = Annotated[Path, typer.Option("-o", "--output", help="Graph file: .json, .gz or .zst.")]
Batch = Annotated[int, typer.Option(help="Global batch.")]


@capture.command()
def hf(
    config: Annotated[Path, typer.Argument(help="config.json of a Hugging Face model.")],
    batch: Batch,
    seq: Annotated[int, typer.Option(help="Sequence length.")],
    output: Output,
) -> None:
    """Capture a Hugging Face model from its configuration, without weights."""
    _write(_captures().capture_hf(config, batch=batch, seq=seq), output)


@capture.command()
def torch(
    factory: Annotated[str, typer.Argument(help="pkg.module:function that makes the model.")],
    batch: Batch,
    output: Output,
) -> None:
    """Capture a PyTorch model that a function of yours makes, without weights.

    The function returns a meshwright.capture.Recipe; its module is looked for in this folder first.
    """
    sys.path.insert(0, "")  # as `python -m` does; a console script has its own folder there
    _write(_captures().capture_factory(factory, batch=batch), output)


def _captures() -> Any:
    """The package meshwright.capture; Unavailable where its frameworks are missing."""
    try:
        return import_module("meshwright.capture")
    except ModuleNotFoundError as missing:
        raise Unavailable(
            f"capture needs the package {missing.name}; install it with "
            "pip install 'meshwright[capture]'"
        ) from None


def _write(graph: Graph, output: Path) -> None:
    write_whole(output, graph.to_json() + "\n")
    notices().print(
        f"wrote {output}: {len(graph.ops):,} ops, {len(graph.tensors):,} tensors, {graph.id}",
        markup=False,
        soft_wrap=True,
    )
    for note in graph.notes:
        notices().print(f"note: {note}", markup=False, soft_wrap=True)
