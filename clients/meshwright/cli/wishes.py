"""The options of a request on the command line: its setup, budget and constraints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from meshwright.cli.pins import parse_tensors
from meshwright.common.files import read_document
from meshwright.schema import (
    Budget,
    Constraints,
    Degrees,
    Fusion,
    InvalidInput,
    OptimizerParallel,
    Pipeline,
    Recompute,
    RequestError,
    ScheduleKind,
    Setup,
)
from meshwright.schema.model import Model

AUTO, NONE = "auto", "none"
MINDSPORE = "mindspore"  # the profile of --fusion
M = TypeVar("M", bound=Model)
T = TypeVar("T")


def setup_of(
    file: Path | None,
    *,
    seq: int | None,
    dataset: str | None,
    fusion: Sequence[str] = (),
    cache: int | None = None,
    **given: object | None,
) -> Setup:
    """The setup of a file, with what the command line says over it."""
    found: dict[str, Any] = read_document(file, Setup).to_dict() if file else {}
    if seq is not None:
        found["symbols"] = {**found.get("symbols", {}), "seq": seq}
    if dataset is not None:
        is_cuts = dataset.startswith("(")
        found["dataset"] = parse_tensors(dataset, "--dataset") if is_cuts else dataset
    if MINDSPORE in fusion:
        if len(fusion) > 1:
            raise RequestError(
                f"--fusion {MINDSPORE} states every collective; leave the other --fusion out"
            )
        found["fusion"] = MINDSPORE
    elif fusion:
        said = list(map(_fusion_of, fusion))
        twice = [kind for at, (kind, _) in enumerate(said) if kind in dict(said[:at])]
        if twice:
            raise RequestError(f"--fusion: {twice[0]} is given twice; leave one of the two out")
        found["fusion"] = {**found.get("fusion", {}), **dict(said)}
    if cache is not None:
        found["cache"] = {**(found.get("cache") or {}), "context": cache}
    found.update({field: value for field, value in given.items() if value is not None})
    return Setup.from_dict(found)


def setup_over(setup: Setup, **given: object | None) -> Setup:
    """A setup with what the command line says over it."""
    said = {field: value for field, value in given.items() if value is not None}
    return Setup.from_dict({**setup.to_dict(), **said})


def _fusion_of(text: str) -> tuple[str, dict[str, object]]:
    """all_reduce=auto, all_gather=size:64, all_reduce=index:20,35."""
    kind, _, said = text.partition("=")
    mode, _, config = said.partition(":")
    one_of("--fusion", kind, tuple(Fusion.model_fields))
    one_of("--fusion", mode, ("auto", "size", "index"))
    numbers = config.split(",") if config else []
    if not all(number.isdecimal() for number in numbers) or (mode == "size" and len(numbers) != 1):
        raise RequestError(
            f"--fusion: {text[:80]!r} is not like all_reduce=auto, all_reduce=size:64, "
            "all_reduce=index:20,35 or mindspore"
        )
    if mode == "size":
        return kind, {"mode": mode, "size_mb": int(numbers[0])}
    return kind, {"mode": mode, "index": tuple(map(int, numbers))}


def budget_of(
    seconds: str | None,
    axes: int | None,
    simplicity: float | None,
    *,
    unrestricted: bool | None = None,
) -> Budget:
    """seconds: a number, or `none` for no limit."""
    limit: float | None = None
    if seconds is not None and seconds != NONE:
        try:
            limit = float(seconds)
        except ValueError:
            raise RequestError(
                f"--budget: {seconds[:80]!r} is neither a number of seconds nor {NONE}"
            ) from None
    budget = _read(
        Budget,
        {
            "seconds": ("--budget", limit),
            "max_axes": ("--axes", axes),
            "simplicity": ("--simplicity", simplicity),
            "unrestricted": ("--unrestricted", unrestricted),
        },
    )
    return budget.like(seconds=None) if seconds == NONE else budget


def constraints_of(
    *,
    fully_use_devices: bool,
    elementwise_follow: bool,
    slice_alignment: int | None,
    optimizer_parallel: OptimizerParallel | None = None,
    offload: str | None = None,
    sparse_gradients: tuple[str, ...] = (),
) -> Constraints:
    return _read(
        Constraints,
        {
            "fully_use_devices": ("--fully-use-devices", fully_use_devices),
            "elementwise_follow": ("--elementwise-follow", elementwise_follow),
            "slice_alignment": ("--slice-alignment", slice_alignment),
            "optimizer_parallel": ("--optimizer-level", optimizer_parallel),
            "offload": ("--offload", offload),
            "sparse_gradients": ("--sparse-gradients", sparse_gradients),
        },
    )


def optimizer_parallel_of(
    level: int | None,
    shard_size: int | None,
    threshold_kb: int | None,
    shards: bool | None,
    *,
    whole_parameters: bool = False,
    unsharded: Sequence[str] = (),
) -> OptimizerParallel | None:
    """None if no option is given: the search chooses."""
    given = (level, shard_size, threshold_kb, shards)
    if not whole_parameters and not unsharded and all(value is None for value in given):
        return None
    return _read(
        OptimizerParallel,
        {
            "level": ("--optimizer-level", level),
            "shard_size": ("--optimizer-shard-size", shard_size),
            "threshold_kb": ("--optimizer-threshold", threshold_kb),
            "gradient_accumulation_shard": ("--gradient-accumulation-shard", shards),
            "whole_parameters": ("--optimizer-whole-parameters", whole_parameters),
            "unsharded": ("--optimizer-unsharded", tuple(unsharded)),
        },
    )


def degrees_of(*, zero: int, sequence_parallel: bool, **ways: int | None) -> Degrees:
    """ways: dp, tp, cp and ep."""
    given = {name: (f"--{name}", value) for name, value in ways.items()}
    rest = {
        "zero": ("--zero", zero),
        "sequence_parallel": ("--sequence-parallel", sequence_parallel),
    }
    return _read(Degrees, {**given, **rest})


def stage_layers_of(
    layers: str | None, first: int | None, last: int | None, stages: int | None
) -> tuple[int | None, ...]:
    """The numbers of layers of all stages. stages: their number, None where it is not stated."""
    ends = "--first-stage-layers" if first is not None else "--last-stage-layers"
    if layers is not None and (first is not None or last is not None):
        raise RequestError(f"--stage-layers and {ends} state the same. Leave one of the two out")
    if layers is not None:
        parts = [part.strip() for part in layers.split(",")]
        for part in parts:
            if part != "*" and not (part.isdecimal() and int(part) > 0):
                raise RequestError(
                    f"--stage-layers: {part[:80]!r} is neither a number of layers nor *"
                )
        return tuple(None if part == "*" else int(part) for part in parts)
    if first is None and last is None:
        return ()
    if stages is None or stages < 2:
        raise RequestError(f"{ends} needs a pipeline. State its number of ranks too")
    return (first, *(None,) * (stages - 2), last)


def pipeline_of(
    ranks: str | None,
    schedule: str | None,
    stages_per_rank: int | None,
    cuts: Sequence[str],
    layers: Callable[[int | None], tuple[int | None, ...]] | None = None,
) -> Pipeline:
    """ranks: a number, `none` or `auto`, the default. layers: of the stages, by their number."""
    number = None if ranks in (None, AUTO) else "1" if ranks == NONE else ranks
    if number is not None and not (number.isdecimal() and int(number) > 0):
        raise RequestError(
            f"--pipeline: {number[:80]!r} is neither a number of ranks nor {NONE} nor {AUTO}"
        )
    stages = None if number is None else int(number) * (stages_per_rank or 1)
    given: dict[str, object] = {
        "ranks": number and int(number),
        "cuts": tuple(cuts),
        "layers": () if layers is None else layers(stages),
    }
    if schedule is not None:
        given["schedule"] = one_of("--schedule", schedule, get_args(ScheduleKind))
    if stages_per_rank is not None:
        given["stages_per_rank"] = stages_per_rank
    return Pipeline.model_validate(given)


def recompute_of(
    policy: str | None,
    blocks: int | None,
    *,
    ops: Sequence[str] = (),
    communication: str | None = None,
) -> Recompute:
    if ops and policy not in (None, "stated"):
        raise RequestError(
            f"--recompute {policy!r} with --recompute-ops, which is a policy of its own. Leave one "
            "of the two out"
        )
    said: dict[str, tuple[str, object | None]] = {
        "policy": ("--recompute", "stated" if ops else policy),
        "blocks": ("--recompute-blocks", blocks),
        "ops": ("--recompute-ops", tuple(ops) or None),
        "communication": ("--recompute-communication", communication),
    }
    return _read(Recompute, said)


def copies_of(text: str | None) -> int | str | None:
    """A number, or `auto`."""
    if text is None:
        return None
    known = one_of("--copies", text, ("1", "2", AUTO))
    return known if known == AUTO else int(known)


def one_of(option: str, value: str, known: Collection[T]) -> T:
    """The value of an option that has only these; RequestError names them."""
    for own in known:
        if own == value:
            return own
    raise RequestError(f"{option}: {value[:80]!r} is none of {', '.join(map(str, known))}")


def _read(kind: type[M], options: dict[str, tuple[str, object | None]]) -> M:
    """A model of fields, each with its option; None is not said."""
    given = {field: value for field, (_, value) in options.items() if value is not None}
    try:
        return kind.model_validate(given)
    except InvalidInput as wrong:
        if not wrong.fault:
            raise
        option, _ = options[wrong.pointer.split("/")[1]]
        raise RequestError(f"{option}: {wrong.detail.removeprefix(f'{wrong.pointer}: ')}") from None
