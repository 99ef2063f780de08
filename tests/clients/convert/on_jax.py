"""Run in a process with many host devices: what jax puts where. JSON on standard input and output.

In: cases [[grid, layout], ...] and one of them whose first axis is unreduced and whose dim is over
the second. Out: for each case the stretches of every dim on every rank; what the ranks of the
other hold when columns of 0 1 2 ... are summed over the first axis, and what they make together.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from meshwright.convert import DeviceGrid, JaxLayout


def main() -> None:
    given = json.load(sys.stdin)
    json.dump({"cases": stretches(given["cases"]), "sum": summed(*given["sum"])}, sys.stdout)


def summed(given_grid: Any, given_layout: Any) -> dict[str, Any]:
    grid = DeviceGrid.model_validate(given_grid)
    words = JaxLayout.model_validate(given_layout)
    mesh, spec = grid.to_jax(axis_type="explicit"), words.to_jax()
    first, second = grid.names
    table = jnp.arange(grid.sizes[0] * words.shape[0], dtype=float).reshape(grid.sizes[0], -1)
    with jax.set_mesh(mesh):
        table = jax.device_put(table, NamedSharding(mesh, PartitionSpec(first, second)))
        ones = jax.device_put(jnp.ones(grid.sizes[0]), NamedSharding(mesh, PartitionSpec(first)))

        @jax.jit
        def parts(table: jax.Array, ones: jax.Array) -> jax.Array:
            return jnp.einsum("ab,a->b", table, ones, out_sharding=spec)

        @jax.jit
        def whole(table: jax.Array, ones: jax.Array) -> jax.Array:
            return jax.sharding.reshard(parts(table, ones), PartitionSpec(second))

        held = parts(table, ones)
        assert JaxLayout.from_jax(held.sharding.spec, words.shape) == words
        return {
            "parts": [shard.data.tolist() for shard in held.addressable_shards],
            "whole": whole(table, ones).tolist(),
        }


def stretches(given: Any) -> list[Any]:
    answers = []
    for given_grid, given_layout in given:
        grid = DeviceGrid.model_validate(given_grid)
        words = JaxLayout.model_validate(given_layout)
        mesh, spec = grid.to_jax(), words.to_jax()
        assert DeviceGrid.from_jax(mesh) == grid
        back = JaxLayout.from_jax(spec, words.shape)
        assert back == words.model_copy(update={"padded_from": None}), (back, words)
        sharding = NamedSharding(mesh, spec)
        by_rank = {
            device.id: at for device, at in sharding.devices_indices_map(words.shape).items()
        }
        answers.append(
            [
                [list(at.indices(n)[:2]) for at, n in zip(by_rank[rank], words.shape, strict=True)]
                for rank in grid.ranks
            ]
        )
    return answers


if __name__ == "__main__":
    main()
