"""Regions of `jax.shard_map`, with their collectives, as functions of whole arrays.

The body is the program of one rank. An array that differs among the ranks of the mesh axis gets a
leading group dim; an array that is equal on all ranks has none. An equation of the body runs on the
group dim by `jax.vmap`, and a collective is the operation that it means:

    psum, pmean   the sum over the group dim (pmax, pmin: the maximum, the minimum)
    all_gather    the group dim becomes the outer part of a dim, or a dim of its own
    psum_scatter  the sum, of which a dim is divided into a group dim and the rest
    all_to_all    the group dim and the outer part of a dim change places

The primitive `group` marks where group dims begin and end, as in
`meshwright.capture.group_collectives`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from meshwright.schema.errors import GraphError

Array = Any

GROUP = Primitive("meshwright_group")
GROUP.def_abstract_eval(lambda x, **_: x)  # type: ignore[no-untyped-call]  # jax has no types there
GROUP.def_impl(lambda x, **_: x)  # type: ignore[no-untyped-call]  # the same

_REDUCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "psum": lambda x: x.sum(0),
    "psum2": lambda x: x.sum(0),
    "psum_invariant": lambda x: x.sum(0),
    "pmax": lambda x: x.max(0),
    "pmin": lambda x: x.min(0),
}
_COLLECTIVES = frozenset({
    *_REDUCTIONS, "axis_index", "all_gather", "all_gather_invariant", "reduce_scatter",
    "all_to_all",
})  # fmt: skip
_REFUSED = frozenset({"ppermute", "pgather", "shard_map"})
_CASTS = frozenset({"pvary", "pbroadcast", "pcast", "mesh_cast"})
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")


@dataclass(frozen=True)
class Ranked:
    """An array inside the region. varies: whether its dim 0 is the group dim."""

    array: Array
    varies: bool


def whole_function(equation: Any) -> Callable[..., Sequence[Array]]:
    """The function of whole arrays that a `shard_map` equation computes.

    Raises GraphError for specs over several mesh axes.
    """
    params = equation.params
    axes = {name for spec in (*params["in_specs"], *params["out_specs"]) for name in _names(spec)}
    sizes = {name: size for name, size in params["mesh"].shape.items() if name in axes}
    if len(sizes) > 1:
        raise GraphError(
            f"a shard_map divides arrays over the axes {', '.join(sizes)}. Use one axis in its "
            "specs; the planner shards the rest over other axes"
        )
    axis, size = next(iter(sizes.items()), ("", 1))
    region = _ShardMapBody(axis, size)
    body = params["jaxpr"]

    def whole(*inputs: Array) -> Sequence[Array]:
        ranked = [
            region.divided(x, spec) for x, spec in zip(inputs, params["in_specs"], strict=True)
        ]
        results = region.run(getattr(body, "jaxpr", body), getattr(body, "consts", ()), ranked)
        return [
            region.joined(x, spec) for x, spec in zip(results, params["out_specs"], strict=True)
        ]

    return whole


@dataclass(frozen=True)
class _ShardMapBody:
    axis: str
    size: int

    def divided(self, x: Array, spec: Any) -> Ranked:
        """A whole array by rank."""
        dim = self._dim(spec)
        if dim is None:
            return Ranked(x, False)
        shape = (*x.shape[:dim], self.size, x.shape[dim] // self.size, *x.shape[dim + 1 :])
        return self._varying(jnp.moveaxis(x.reshape(shape), dim, 0), "shard")

    def joined(self, ranked: Ranked, spec: Any) -> Array:
        """The whole array of the arrays of all ranks."""
        dim = self._dim(spec)
        if dim is None:
            # without a check of its own, shard_map takes the array of any rank
            return ranked.array[0] if ranked.varies else ranked.array
        rows = jnp.moveaxis(self._rows(ranked), 0, dim)
        whole = rows.reshape(*rows.shape[:dim], -1, *rows.shape[dim + 2 :])
        return self._marked(whole, "unshard", False)

    def run(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Ranked]) -> list[Ranked]:
        known: dict[Any, Ranked] = dict(zip(jaxpr.invars, inputs, strict=True))
        known.update(
            (variable, Ranked(const, False))
            for variable, const in zip(jaxpr.constvars, consts, strict=True)
        )

        def value(variable: Any) -> Ranked:
            is_literal = hasattr(variable, "val")
            return Ranked(variable.val, False) if is_literal else known[variable]

        for equation in jaxpr.eqns:
            arguments = [value(variable) for variable in equation.invars]
            results = self._equation(equation, arguments)
            known.update(zip(equation.outvars, results, strict=True))
        return [value(variable) for variable in jaxpr.outvars]

    def _equation(self, equation: Any, inputs: list[Ranked]) -> list[Ranked]:
        kind, params = equation.primitive.name, equation.params
        if kind in _CASTS:
            return inputs
        if kind in _COLLECTIVES:
            self._check_axes(kind, params)
        if kind == "axis_index":
            return [self._varying(jnp.arange(self.size, dtype=jnp.int32), kind)]
        if kind in _REDUCTIONS:
            return [
                Ranked(self._marked(_REDUCTIONS[kind](self._rows(x)), kind, False), False)
                for x in inputs
            ]
        if kind in ("all_gather", "all_gather_invariant"):
            return [self._gathered(x, params, kind) for x in inputs]
        if kind == "reduce_scatter":
            return [self._scattered(x, params) for x in inputs]
        if kind == "all_to_all":
            return [self._exchanged(x, params) for x in inputs]
        if kind in _REFUSED:
            raise GraphError(
                f"a shard_map has a {kind}. Use psum, pmax, pmin, all_gather, psum_scatter or "
                "all_to_all, over one mesh axis"
            )
        body = next((params[name] for name in _BODIES if name in params), None)
        if body is not None and _communicates(getattr(body, "jaxpr", body)):
            if kind == "scan":
                return self._scan(params, body, inputs)
            if kind in ("while", "cond"):
                raise GraphError(
                    f"a {kind} in a shard_map depends on the mesh axis. Write it out as operations "
                    "on whole arrays"
                )
            return self.run(getattr(body, "jaxpr", body), getattr(body, "consts", ()), inputs)
        return self._local(equation, inputs)

    def _scan(self, params: Mapping[str, Any], body: Any, inputs: list[Ranked]) -> list[Ranked]:
        """A scan over steps that depend on the mesh axis, written out."""
        consts, carries, length = params["num_consts"], params["num_carry"], params["length"]
        constants, carry = inputs[:consts], inputs[consts : consts + carries]
        columns: list[list[Ranked]] = [[] for _ in range(length)]
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)
        for step in order:
            parts = [
                Ranked(x.array[:, step] if x.varies else x.array[step], x.varies)
                for x in inputs[consts + carries :]
            ]
            results = self.run(body.jaxpr, body.consts, [*constants, *carry, *parts])
            carry, columns[step] = results[:carries], results[carries:]
        return [*carry, *(self._stacked(rows) for rows in zip(*columns, strict=True))]

    def _stacked(self, steps: Sequence[Ranked]) -> Ranked:
        if not any(x.varies for x in steps):
            return Ranked(jnp.stack([x.array for x in steps]), False)
        return Ranked(jnp.stack([self._rows(x) for x in steps], 1), True)

    def _check_axes(self, kind: str, params: Mapping[str, Any]) -> None:
        axes = params.get("axes", params.get("axis_name", ()))
        names = axes if isinstance(axes, tuple) else (axes,)
        if names != (self.axis,):
            raise GraphError(
                f"a shard_map has a {kind} over {', '.join(map(str, names))}, and its specs divide "
                f"arrays over {self.axis or 'no axis'}. Use the axis of the specs"
            )
        if params.get("axis_index_groups") is not None:
            raise GraphError(f"a {kind} has axis_index_groups. Use the whole axis")

    def _local(self, equation: Any, inputs: Sequence[Ranked]) -> list[Ranked]:
        """An equation of one rank, on the arrays of all ranks."""

        def function(*arrays: Array) -> Sequence[Array]:
            primitive = equation.primitive
            results = primitive.bind(*arrays, **primitive.get_bind_params(equation.params))
            return results if primitive.multiple_results else [results]

        arrays = [x.array for x in inputs]
        varies = any(x.varies for x in inputs)
        if varies:
            mapped = tuple(0 if x.varies else None for x in inputs)
            function = jax.vmap(function, in_axes=mapped, out_axes=0)
        return [Ranked(result, varies) for result in function(*arrays)]

    def _gathered(self, x: Ranked, params: Mapping[str, Any], kind: str) -> Ranked:
        dim = params["all_gather_dimension"]
        rows = jnp.moveaxis(self._rows(x), 0, dim)
        if params["tiled"]:
            rows = rows.reshape(*rows.shape[:dim], -1, *rows.shape[dim + 2 :])
        return Ranked(self._marked(rows, kind, False), False)

    def _scattered(self, x: Ranked, params: Mapping[str, Any]) -> Ranked:
        dim, total = params["scatter_dimension"], self._rows(x).sum(0)
        if params["tiled"]:
            total = total.reshape(*total.shape[:dim], self.size, -1, *total.shape[dim + 1 :])
        return self._varying(jnp.moveaxis(total, dim, 0), "psum_scatter")

    def _exchanged(self, x: Ranked, params: Mapping[str, Any]) -> Ranked:
        split, concat = params["split_axis"], params["concat_axis"]
        rows = self._rows(x)  # ranks, then the dims of one rank
        if params["tiled"]:
            shape = rows.shape
            parts = rows.reshape(*shape[: split + 1], self.size, -1, *shape[split + 2 :])
        else:
            parts = rows
        sent = jnp.moveaxis(parts, split + 1, 0)  # receiver, sender, the dims that are left
        placed = jnp.moveaxis(sent, 1, concat + 1)
        if params["tiled"]:
            shape = placed.shape
            placed = placed.reshape(*shape[: concat + 1], -1, *shape[concat + 3 :])
        return self._varying(placed, "all_to_all")

    def _rows(self, x: Ranked) -> Array:
        """The arrays of all ranks, by group dim."""
        if x.varies:
            return x.array
        return jnp.broadcast_to(x.array, (self.size, *jnp.shape(x.array)))

    def _varying(self, rows: Array, collective: str) -> Ranked:
        return Ranked(self._marked(rows, collective, True), True)

    def _marked(self, x: Array, collective: str, varies: bool) -> Array:
        attrs = {"collective": collective, "group": self.size, "varies": varies}
        return GROUP.bind(x, **attrs)  # type: ignore[no-untyped-call]  # jax has no types there

    def _dim(self, spec: Any) -> int | None:
        dims = [d for d, entry in enumerate(spec) if self.axis and self.axis in _entry(entry)]
        return dims[0] if dims else None


def _communicates(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in _COLLECTIVES | _REFUSED | _CASTS:
            return True
        body = next((equation.params[part] for part in _BODIES if part in equation.params), None)
        if body is not None and _communicates(getattr(body, "jaxpr", body)):
            return True
    return False


def _names(spec: Any) -> set[str]:
    return {name for entry in spec for name in _entry(entry)}


def _entry(entry: Any) -> tuple[str, ...]:
    if entry is None:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)
