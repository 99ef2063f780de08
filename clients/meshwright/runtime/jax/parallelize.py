"""From a function of JAX and a plan to its loss and gradients on many devices."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp

from meshwright.capture.jax.leaves import named_leaves
from meshwright.capture.jax.recipe import read_function
from meshwright.capture.witness import Witness
from meshwright.convert import grid_of
from meshwright.runtime.fallback import drops
from meshwright.runtime.jax.automatic import Automatic
from meshwright.runtime.jax.exact import Exact
from meshwright.runtime.jax.job import Form, Job
from meshwright.runtime.jax.kinds import KERNELS
from meshwright.runtime.jax.sharded import Sharded
from meshwright.runtime.source import PlanSource
from meshwright.schema import Graph, PlanError
from meshwright.schema.rank_strategy import RankStrategy

_LOG = logging.getLogger(__name__)
FormName = Literal["exact", "automatic"]
FORMS: Mapping[FormName, Callable[[Job], Form]] = {"exact": Exact, "automatic": Automatic}


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
    """A function that was captured, under a plan: a file, a URL, or an id at `server`.

    arguments: the function's, or their shapes: parameters, then a batch. form: `exact` moves what
    the plan moves and nothing else, `automatic` tells XLA where tensors lie and leaves the rest to
    it. devices: in the order of the plan's ranks; None: all of JAX. cache: a folder, in which a
    restart finds what it needs without the service. Raises PlanError where the plan is for another
    number of devices or another function, or says what is not carried out.
    """
    given = list(jax.devices() if devices is None else devices)
    strategy, graph = PlanSource(plan, server=server, cache=cache).of_rank(0, len(given))
    _check(strategy, graph)
    stage = strategy.stages[0].planned
    names = tuple(list(inspect.signature(function).parameters)[1 : len(arguments)])
    job = Job(
        strategy,
        graph,
        grid_of(stage.mesh, ranks_from=stage.ranks_from).to_jax(given),
        _constants(function, arguments, graph),
        _dtypes(graph, arguments[0]),
    )
    step = FORMS[form](job).loss_and_gradients
    made = Sharded(job, names, step)
    if form == "exact":
        for op, why in made.fallen_back.items():
            _LOG.warning("op %r is run whole on every device: %s", op, why)
    return made


def _check(strategy: RankStrategy, graph: Graph) -> None:
    """Refuse what is not carried out, and what cannot be trained."""
    if len(strategy.sites) > 1:
        raise PlanError(
            "the plan has several pipeline stages, one program of JAX has one: plan with one"
        )
    if strategy.order:
        raise PlanError(
            "the plan loads sequences in zigzag order: not carried out in JAX; plan with "
            "sequence_order: contiguous"
        )
    if graph.loss is None:
        raise PlanError(f"the graph {graph.id} has no loss; capture a function that returns it")
    for op in graph.ops:
        if op.kind not in KERNELS:
            raise PlanError(
                f"op {op.name!r} is of the kind {op.kind!r}, which has no kernel in JAX"
            )
        if drops(op.kind, op.attrs):
            raise PlanError(
                f"op {op.name!r} drops elements: not carried out in JAX; capture it without dropout"
            )


def _constants(
    function: Callable[..., Any], arguments: Sequence[Any], graph: Graph
) -> dict[str, jax.Array]:
    """Values of the graph's constants: arrays that the function has of its own."""
    wanted = {t.name: t.shape for t in graph.tensors if t.role in ("constant", "buffer")}
    if not wanted:
        return {}
    reader, _ = read_function(function, arguments, Witness(), "the function")
    found = {name: jnp.asarray(own) for name, own in reader.constants.items() if name in wanted}
    for name, shape in wanted.items():
        if name not in found or found[name].shape != shape:
            raise PlanError(
                f"the plan's graph {graph.id} has the constant {name!r} of shape {list(shape)}, "
                "the function has none like it"
            )
    return found


def _dtypes(graph: Graph, parameters: Any) -> dict[str, str]:
    """The graph's dtypes that run as others: that of the parameters as those given, and in float64
    every float."""
    held = {t.name: t.dtype for t in graph.tensors if t.role == "parameter"}
    own = {leaf.name: str(leaf.value.dtype) for leaf in named_leaves(parameters, "")}
    found = {}
    for name, dtype in held.items():
        given = own.get(name) or own.get(name.rpartition(".")[0])
        if given is not None and given != dtype:
            found[str(dtype)] = given
    if "float64" in found.values():
        found |= dict.fromkeys(("float32", "bfloat16", "float16"), "float64")
    return found
