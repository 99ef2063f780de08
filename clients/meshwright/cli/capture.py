"""`meshwright capture`: real programs into graph files. Needs their framework, but no server."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from meshwright.cli.consoles import notices
from meshwright.cli.help_sections import SectionedCommand
from meshwright.cli.output import save, writable
from meshwright.reports.precision import graph_precision
from meshwright.schema import Graph, GraphError, Unavailable

capture = typer.Typer(help="Capture a model as a graph.", no_args_is_help=True)

Output = Annotated[
    Path,
    typer.Option("-o", "--output", help="Graph file: .json, .gz or .zst.", callback=writable),
]
Batch = Annotated[int, typer.Option(help="Global batch.")]
Seq = Annotated[int | None, typer.Option(help="Sequence length: the recipe's symbol `seq`.")]
Sizes = Annotated[
    list[str] | None,
    typer.Option("--size", help="Size of a symbol of the recipe: frames=64. Repeatable."),
]
DTypeOption = Annotated[
    str | None,
    typer.Option("--dtype", help="Dtype of parameters and floating inputs, such as bfloat16."),
]
Autocast = Annotated[
    str | None,
    typer.Option(help="Dtype of an autocast region around the forward pass: bfloat16 or float16."),
]


@capture.command(cls=SectionedCommand)
def hf(
    config: Annotated[Path, typer.Argument(help="config.json of a Hugging Face model.")],
    batch: Batch,
    seq: Annotated[int, typer.Option(help="Sequence length.")],
    output: Output,
    dtype: DTypeOption = None,
    autocast: Autocast = None,
) -> None:
    """Capture a Hugging Face model from its configuration, without weights.

    Parameters have the configuration's dtype, or float32 under --autocast.
    """
    precision = {"dtype": dtype, "autocast": autocast}
    graph = _captured("capture_hf", config, batch=batch, seq=seq, **precision)
    _write(graph, output, *_precision(graph))


@capture.command(cls=SectionedCommand)
def torch(
    factory: Annotated[str, typer.Argument(help="pkg.module:function that makes the model.")],
    batch: Batch,
    output: Output,
    seq: Seq = None,
    size: Sizes = None,
    dtype: DTypeOption = None,
    autocast: Autocast = None,
) -> None:
    """Capture a PyTorch model that a function of yours makes, without weights.

    The function returns a meshwright.capture.Recipe; its module is looked for in this folder first.
    """
    sys.path.insert(0, "")  # as `python -m` does; a console script has its own folder there
    graph = _captured(
        "capture_factory",
        factory,
        batch=batch,
        sizes=_symbol_sizes(seq, size),
        dtype=dtype,
        autocast=autocast,
    )
    _write(graph, output, *_precision(graph))


@capture.command(cls=SectionedCommand)
def decoder(
    output: Output,
    batch: Batch,
    seq: Annotated[int, typer.Option(help="Sequence length.")],
    layers: Annotated[int, typer.Option(help="Number of layers.")],
    hidden: Annotated[int, typer.Option(help="Hidden size.")],
    heads: Annotated[int, typer.Option(help="Attention heads.")],
    vocabulary: Annotated[int, typer.Option(help="Vocabulary size.")],
    ffn: Annotated[
        int | None, typer.Option(help="Feed-forward size of a dense layer. Default: 4 x hidden.")
    ] = None,
    kv_heads: Annotated[
        int | None, typer.Option(help="Heads of keys and values. Default: as many as heads.")
    ] = None,
    head_dim: Annotated[
        int | None, typer.Option(help="Head dimension. Default: hidden / heads.")
    ] = None,
    gated: Annotated[
        bool,
        typer.Option(
            "--gated/--gpt",
            help="Gated feed-forward parts, RMS norms and rotary positions as in Llama, or GPT-2's "
            "layers.",
        ),
    ] = True,
    tied: Annotated[bool, typer.Option("--tied", help="The head is the embedding.")] = False,
    experts: Annotated[int, typer.Option(help="Experts of a layer.")] = 0,
    top_k: Annotated[int, typer.Option(help="Experts that a token visits.")] = 0,
    expert_ffn: Annotated[int, typer.Option(help="Feed-forward size of an expert.")] = 0,
    shared_ffn: Annotated[
        int, typer.Option(help="Feed-forward size of the experts that every token visits.")
    ] = 0,
    dense_layers: Annotated[int, typer.Option(help="First layers without experts.")] = 0,
    dtype: DTypeOption = None,
) -> None:
    """Write the graph of a decoder from its dimensions, without a framework.

    The graph equals that of `capture hf` for Llama, Mixtral and GPT-2 of the same dimensions.
    """
    from meshwright.capture.decoder import Decoder, decoder_graph  # only this command needs it

    dimensions = Decoder(
        layers=layers,
        hidden=hidden,
        heads=heads,
        vocabulary=vocabulary,
        ffn=4 * hidden if ffn is None else ffn,
        kv_heads=kv_heads,
        head_dim=head_dim,
        gated=gated,
        tied=tied,
        experts=experts,
        top_k=top_k,
        expert_ffn=expert_ffn,
        shared_ffn=shared_ffn,
        dense_layers=dense_layers,
    )
    graph = decoder_graph(
        dimensions, batch=batch, seq=seq, dtype=dtype or "bfloat16", name=output.stem.split(".")[0]
    )
    _write(graph, output)


@capture.command(cls=SectionedCommand)
def onnx(
    file: Annotated[Path, typer.Argument(help="ONNX model; weights in other files are not read.")],
    output: Output,
    size: Annotated[
        list[str] | None, typer.Option(help="A named dim of the inputs: batch=32. Repeatable.")
    ] = None,
) -> None:
    """Capture an ONNX model: its forward pass, shapes inferred."""
    _write(_captured("capture_onnx", file, sizes=_sizes(size or [])), output)


@capture.command(cls=SectionedCommand)
def jax(
    factory: Annotated[str, typer.Argument(help="pkg.module:function that makes the recipe.")],
    batch: Batch,
    output: Output,
    seq: Seq = None,
    size: Sizes = None,
) -> None:
    """Capture a JAX function that a function of yours names, without arrays.

    The function returns a meshwright.capture.JaxRecipe; its module is looked for in this folder
    first. Annotations of shardings come out as pins for `meshwright plan --pin`.
    """
    sys.path.insert(0, "")  # as `python -m` does; a console script has its own folder there
    sizes = _symbol_sizes(seq, size)
    _write(_captured("capture_jax", factory, batch=batch, sizes=sizes), output)


@capture.command(cls=SectionedCommand)
def mindspore(
    factory: Annotated[str, typer.Argument(help="pkg.module:function that makes the recipe.")],
    batch: Batch,
    output: Output,
    seq: Seq = None,
    size: Sizes = None,
) -> None:
    """Capture a MindSpore network, operator for operator, as MindSpore compiles it on the CPU.

    The function returns a meshwright.capture.MindSporeRecipe; its module is looked for in this
    folder first. Strategies of primitives come out as pins for `meshwright plan --pin`.
    """
    sys.path.insert(0, "")  # as `python -m` does; a console script has its own folder there
    sizes = _symbol_sizes(seq, size)
    _write(_captured("capture_mindspore", factory, batch=batch, sizes=sizes), output)


def _sizes(given: list[str]) -> dict[str, int]:
    sizes = {}
    for item in given:
        name, _, number = item.partition("=")
        if not name or not number.isdecimal():
            raise GraphError(f"--size {item!r} is not of the form NAME=NUMBER")
        sizes[name] = int(number)
    return sizes


def _symbol_sizes(seq: int | None, given: list[str] | None) -> dict[str, int]:
    """The sizes of `--seq` and `--size`; GraphError for a symbol that both give."""
    sizes = _sizes(given or [])
    if seq is None:
        return sizes
    if "seq" in sizes:
        raise GraphError("--seq and --size seq=... are given. Leave one of the two out")
    return {**sizes, "seq": seq}


def _captured(name: str, *arguments: Any, **options: Any) -> Graph:
    """What a function of meshwright.capture gives; Unavailable where its framework is missing."""
    try:
        function = getattr(import_module("meshwright.capture"), name)
    except ModuleNotFoundError as missing:
        extra = missing.name if missing.name in ("onnx", "jax", "mindspore") else "capture"
        raise Unavailable(
            f"capture needs the package {missing.name}; install it with "
            f"pip install 'meshwright[{extra}]'"
        ) from None
    graph: Graph = function(*arguments, **options)
    return graph


def _precision(graph: Graph) -> list[str]:
    note = graph_precision(graph)
    return [] if note is None else [note]


def _write(graph: Graph, output: Path, *notes: str) -> None:
    save(output, graph)
    notices().print(
        f"wrote {output}: {len(graph.ops):,} ops, {len(graph.tensors):,} tensors, {graph.id}",
        markup=False,
        soft_wrap=True,
    )
    for note in (*graph.notes, *notes):
        notices().print(f"note: {note}", markup=False, soft_wrap=True)
