"""Parallelization of a JAX function: its loss and gradients on many devices under a plan."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

from meshwright.capture.jax.from_factory import read_function
from meshwright.capture.jax.pytree import named_leaves
from meshwright.capture.symbolic_sizes import Witness
from meshwright.convert import grid_of
from meshwright.runtime.jax.automatic import Automatic
from meshwright.runtime.jax.exact import Exact
from meshwright.runtime.jax.job import Form, JaxStep
from meshwright.runtime.jax.kinds import KERNELS
from meshwright.runtime.jax.sharded import Sharded
from meshwright.runtime.plan_source import PlanSource
from meshwright.schema import Graph, PlanError
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.stages.dropout import drops

_LOG = logging.getLogger(__name__)
FormName = Literal["exact", "automatic"]
FORMS: Mapping[FormName, Callable[[JaxStep], Form]] = {"exact": Exact, "automatic": Automatic}


def parallelize(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    plan: str | Path,
    *,
    form: FormName = "exact",
    server: str | None = None,
    cache: Path | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> Sharded:
    """A captured function under a plan: a file, a URL, or an id at `server`.

    function   the function that was captured
    arguments  its arguments or their shapes: the parameters, then a batch
    form       `exact` runs the plan's collectives and no others; `automatic` gives the layouts to
               XLA, which chooses the collectives
    devices    the devices in the order of the plan's ranks; by default all of JAX
    cache      a folder from which a restart reads the plan without the service

    Raises PlanError if the plan is for another number of devices or another function, or has a
    feature that the runtime does not support.
    """
    devices = list(jax.devices() if devices is None else devices)
    strategy, graph = PlanSource(plan, server=server, cache=cache).of_rank(0, len(devices))
    _check(strategy, graph)
    stage = strategy.stages[0].planned
    names = tuple(list(inspect.signature(function).parameters)[1 : len(arguments)])
    job = JaxStep(
        strategy,
        graph,
        grid_of(stage.mesh, ranks_from=stage.ranks_from).to_jax(devices),
        _constants(function, arguments, graph),
        _dtypes(graph, arguments[0]),
    )
    step = FORMS[form](job).loss_and_gradients
    sharded = Sharded(job, names, step)
    if form == "exact":
        for op, why in sharded.fallen_back.items():
            _LOG.warning("op %r is run whole on every device: %s", op, why)
    return sharded


def _check(strategy: RankStrategy, graph: Graph) -> None:
    """Raise PlanError for a feature that the runtime does not support, or a graph without loss."""
    if len(strategy.sites) > 1:
        raise PlanError(
            "the plan has several pipeline stages, which the JAX runtime does not support. Plan "
            "with one"
        )
    if strategy.order:
        raise PlanError(
            "the plan loads sequences in zigzag order, which the JAX runtime does not support. "
            "Plan with sequence_order: contiguous"
        )
    if graph.loss is None:
        raise PlanError(f"the graph {graph.id} has no loss. Capture a function that returns it")
    for op in graph.ops:
        if op.kind not in KERNELS:
            raise PlanError(
                f"op {op.name!r} is of the kind {op.kind!r}, which has no kernel in JAX"
            )
        if drops(op.kind, op.attrs):
            raise PlanError(
                f"op {op.name!r} has dropout, which the JAX runtime does not support. Capture it "
                "without dropout"
            )


def _constants(
    function: Callable[..., Any], arguments: Sequence[Any], graph: Graph
) -> dict[str, jax.Array]:
    """The values of the graph's constants: arrays that the function captures."""
    shapes = {t.name: t.shape for t in graph.tensors if t.role in ("constant", "buffer")}
    if not shapes:
        return {}
    reader, _ = read_function(function, arguments, Witness(), "the function")
    values = {
        name: jnp.asarray(value) for name, value in reader.constants.items() if name in shapes
    }
    for name, shape in shapes.items():
        if name not in values or values[name].shape != shape:
            raise PlanError(
                f"the plan's graph {graph.id} has the constant {name!r} of shape {list(shape)}, "
                "the function has none like it"
            )
    return values


def _dtypes(graph: Graph, parameters: Any) -> dict[str, str]:
    """The replacements of the graph's dtypes by those of the actual parameters.

    With parameters in float64, every float is float64.
    """
    planned = {t.name: t.dtype for t in graph.tensors if t.role == "parameter"}
    actual = {leaf.name: str(leaf.value.dtype) for leaf in named_leaves(parameters, "")}
    replaced: dict[str, str] = {}
    for name, dtype in planned.items():
        dtype_name = actual.get(name) or actual.get(name.rpartition(".")[0])
        if dtype_name is not None and dtype_name != dtype:
            replaced[str(dtype)] = dtype_name
    if "float64" in replaced.values():
        replaced |= dict.fromkeys(("float32", "bfloat16", "float16"), "float64")
    return replaced
