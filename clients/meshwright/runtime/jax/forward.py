"""One forward pass of one microbatch on one device, with the plan's collectives both ways.

What the plan keeps for the backward pass is marked as kept; where it does anything again, a
checkpoint around the pass keeps what is marked and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from meshwright.runtime.jax.collectives import Collectives
from meshwright.runtime.jax.kernels import LocalOp, run_local
from meshwright.runtime.jax.kinds import call_of, results_of
from meshwright.runtime.jax.redistribute import parameter_read, redistributed
from meshwright.runtime.moves import Move, Way
from meshwright.runtime.program import Given, PlannedOp, Program, View
from meshwright.runtime.stage import PlanReader
from meshwright.schema import PlanError

A = jax.Array
KEPT = "kept"
Sinks = Mapping[tuple[str, PlanReader], A]


class Forward:
    """Values of one pass. sources: parts of inputs and labels, constants. parameters: values at
    rest. sinks: zeros whose gradients are those of parameters, by who reads them. replaced: dtypes
    of the graph that run as others."""

    def __init__(
        self,
        program: Program,
        collectives: Collectives,
        *,
        sources: Mapping[str, A],
        parameters: Mapping[str, A],
        sinks: Sinks,
        replaced: Mapping[str, str],
    ) -> None:
        self._program = program
        self._collectives = collectives
        self._parameters = parameters
        self._sinks = sinks
        self._replaced = replaced
        self._made: dict[str, A] = dict(sources)
        self._as_read: dict[str, A] = {}

    def run(self, sizes: Mapping[str, int]) -> Mapping[str, A]:
        """All values by name; sizes: of the graph's symbols."""
        for op in self._program.ops:
            results = self._results(op, [self._fetch(own) for own in op.inputs], sizes)
            self._made.update(zip(op.op.outputs, results, strict=True))
        return self._made

    def _results(self, op: PlannedOp, inputs: Sequence[A], sizes: Mapping[str, int]) -> Sequence[A]:
        call = call_of(
            op.op,
            inputs,
            shapes=op.shapes,
            dtypes=[self._program.dtypes[name] for name in op.op.outputs],
            sizes=sizes,
            replaced=self._replaced,
        )
        keep = _as_it_is if op.is_again else _kept
        if op.is_whole:
            results = [
                own if way is None else self._travel(own, way)
                for own, way in zip(results_of(call), op.made, strict=True)
            ]
        else:
            local = LocalOp(call, op.planned, op.terms, op.whole_shapes, self._collectives, keep)
            results = list(run_local(local))
        return [keep(own) for own in results]

    def _fetch(self, given: Given) -> A:
        """An input as the op needs it."""
        root = given.root
        if given.shared is not None:
            if root not in self._as_read:
                self._as_read[root] = self._first(root, given.shared)
            local = self._travel(self._as_read[root], given.own)
        else:
            local = self._first(root, given.own)
        if given.around is not None:
            local = self._travel(local, given.around)
        for view in given.views:
            local = _viewed(local, view)
        return local

    def _first(self, root: str, way: Way) -> A:
        """A value from where it rests."""
        if root in self._parameters:
            sink = self._sinks.get((root, way.reader))
            if sink is not None:
                along = self._along(way)
                return _marked(way, parameter_read(self._parameters[root], sink, *along))
            return self._collectives.move(self._parameters[root], way.forward)
        if root not in self._made:
            raise PlanError(f"tensor {root!r} has no value: it is neither given nor made")
        return self._travel(self._made[root], way)

    def _travel(self, local: A, way: Way) -> A:
        if not (way.forward.steps or way.backward.steps):
            return local
        if not jnp.issubdtype(local.dtype, jnp.inexact):
            return self._collectives.move(local, way.forward)
        return _marked(way, redistributed(local, *self._along(way)))

    def _along(self, way: Way) -> tuple[Callable[[A], A], Callable[[A], A]]:
        def along(move: Move) -> Callable[[A], A]:
            return partial(self._collectives.move, move=move)

        return along(way.forward), along(way.backward)


def _marked(way: Way, moved: A) -> A:
    return moved if way.is_again else _kept(moved)


def _kept(value: A) -> A:
    marked: A = checkpoint_name(value, KEPT)
    return marked


def _as_it_is(value: A) -> A:
    return value


def _viewed(local: A, view: View) -> A:
    return local.reshape(view.shape) if view.order is None else local.transpose(view.order)
