"""Options that several commands share: type, bounds and help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from meshwright.cli.output import writable
from meshwright.cli.stored import SERVER
from meshwright.common.process_pool import MAX_PROCESSES
from meshwright.schema import ScheduleKind
from meshwright.schema.request_options import BUDGET_S
from meshwright.schema.stack import Stack
from meshwright.schema.target import TARGETS

_GRAPH = "Graph file: .json, .json.gz or .json.zst; or example:NAME, such as example:llama3-8b."
GraphFile = Annotated[Path, typer.Argument(help=_GRAPH)]
OptionalGraphFile = Annotated[Path | None, typer.Argument(help=_GRAPH, metavar="GRAPH")]
TopologyOption = Annotated[str, typer.Option(help="Preset such as h100-8x8, or a topology file.")]
OptionalTopology = Annotated[
    str | None, typer.Option(help="Preset such as h100-8x8, or a topology file.")
]
ServerOption = Annotated[
    str | None, typer.Option(help="URL of a service that runs the search.", envvar=SERVER)
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="With a service: search again and ignore stored plans.")
]
MaxAge = Annotated[
    str | None,
    typer.Option(
        help="With a service: accept a stored plan of any build of the planner that is not older, "
        "such as 12h or 7d."
    ),
]

OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Plan file.", callback=writable),
]
JsonResult = Annotated[
    bool, typer.Option("--json", help="Print the result as a JSON document, not as tables.")
]
Verify = Annotated[
    bool,
    typer.Option("--verify", help="Execute the plan in numpy, and compare."),
]

SetupFile = Annotated[Path | None, typer.Option(help="Setup file.")]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(help="Calibration file, as `meshwright fit` writes it."),
]
GlobalBatch = Annotated[int | None, typer.Option(min=1, help="Global batch size.")]
SequenceLength = Annotated[int | None, typer.Option(min=1, help="Sequence length.")]
Microbatches = Annotated[int | None, typer.Option(min=1, help="Microbatches of a step.")]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="Products with large weights: graph (the dtypes of the graph), fp8_tensorwise, "
        "fp8_blockwise or mxfp8.",
    ),
]
StackOption = Annotated[
    str | None,
    typer.Option(
        "--stack", help=f"Software stack, for predicted times: {', '.join(get_args(Stack))}."
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Framework that runs the plan: the search considers only what its own options state. "
        f"{', '.join(TARGETS)}.",
    ),
]
ExpertDispatch = Annotated[
    str | None,
    typer.Option(
        help="Copies of a token that travel to experts: expert (one for each chosen expert) or "
        "node (one for each node with chosen experts)."
    ),
]
ExpertNodes = Annotated[
    int | None,
    typer.Option(min=1, help="Nodes that the router sends a token to at most."),
]
ExpertImbalance = Annotated[
    float | None,
    typer.Option(min=1, help="Tokens of the busiest expert, divided by the mean of all."),
]

Pins = Annotated[
    list[str] | None,
    typer.Option(
        help="Strategy of ops: op-glob:factor=axis,…; or :((8,1),(1,tp))->((8,tp),), the splits of "
        "inputs and outputs; or :data_parallel. Repeatable."
    ),
]
FromPlan = Annotated[
    str | None,
    typer.Option(
        help="Plan file, with --server also the id of a plan: its strategies are pins, as numbers "
        "of parts. Pins of --pin replace them."
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Ops, by glob, that keep the strategies of --from-plan or --strategies. Default: all. "
        "Repeatable."
    ),
]
Strategies = Annotated[
    Path | None,
    typer.Option(help="Strategy file of MindSpore, .json or .ckpt: its strategies are pins."),
]
StrategyNames = Annotated[
    Path | None,
    typer.Option(
        help="JSON file that names the op for each operator of --strategies, where their names "
        "differ."
    ),
]
Schedule = Annotated[
    str | None,
    typer.Option(help=f"Pipeline schedule: {', '.join(get_args(ScheduleKind))}."),
]
Cuts = Annotated[
    list[str] | None,
    typer.Option(
        "--cut", help="First op of the next pipeline stage. Repeatable, in the order of the stages."
    ),
]
StageLayers = Annotated[
    str | None,
    typer.Option(
        "--stage-layers",
        help="Layers of every pipeline stage, as 7,8,8,9; * for an equal part of the rest.",
    ),
]
FirstStageLayers = Annotated[
    int | None,
    typer.Option(
        "--first-stage-layers", min=1, help="Layers of the first stage; the others are equal."
    ),
]
LastStageLayers = Annotated[
    int | None,
    typer.Option(
        "--last-stage-layers", min=1, help="Layers of the last stage; the others are equal."
    ),
]
Uneven = Annotated[
    str | None,
    typer.Option(help="Sizes that do not divide: refuse, chunk or pad."),
]
SequenceOrder = Annotated[
    str | None,
    typer.Option(
        help="Order of positions under context parallelism: contiguous, or zigzag, which balances "
        "causal attention."
    ),
]
Copies = Annotated[
    str | None,
    typer.Option(
        help="Interleaved microbatches: 2 overlaps the communication of one with the compute of "
        "the other; auto: if faster."
    ),
]

Recompute = Annotated[
    str | None,
    typer.Option(
        help="Activation recomputation: none, selective, cheap, full, ops (op by op), or auto, the "
        "default."
    ),
]
RecomputeBlocks = Annotated[
    int | None,
    typer.Option(min=0, help="Recompute only in this number of blocks, the first of each stage."),
]
RecomputeOps = Annotated[
    list[str] | None,
    typer.Option(
        help="Ops to recompute, by glob of names or module paths. Nothing else is recomputed. "
        "Repeatable."
    ),
]
RecomputeCommunication = Annotated[
    str | None,
    typer.Option(
        help="Redistributions of recomputed activations: repeat, keep (save their results) or "
        "auto, the default."
    ),
]
UnshardedParameters = Annotated[
    list[str] | None,
    typer.Option(
        "--optimizer-unsharded",
        help="Parameters, by glob, that ZeRO does not shard: value, gradient and optimizer state. "
        "Repeatable.",
    ),
]
SparseGradients = Annotated[
    list[str] | None,
    typer.Option(
        help="Tables, by glob, whose gradients may be ids and rows. Updates then leave all other "
        "rows as they are (SparseAdam, LazyAdam), unlike Adam; off by default. Repeatable."
    ),
]

SearchSeconds = Annotated[
    str | None,
    typer.Option(
        "--budget",
        help=f"Seconds to search at most, {BUDGET_S:.0f} by default; none: until nothing can be "
        "better.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_PROCESSES,
        help="Processes that search pipelines; the plan does not depend on it. Default: one a "
        "core, 8 at most.",
    ),
]
PipelineRanks = Annotated[
    str | None,
    typer.Option(help="Pipeline ranks: a number, none, or auto to search, the default."),
]
