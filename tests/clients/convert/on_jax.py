"""Run in a process with many host devices: what jax puts where. JSON on standard input and output.

In: [[grid, layout], ...]. Out: for each, the stretches of every dim on every rank.
"""

from __future__ import annotations

import json
import sys

import jax

from meshwright.convert import DeviceGrid, JaxLayout


def main() -> None:
    answers = []
    for given_grid, given_layout in json.load(sys.stdin):
        grid = DeviceGrid.model_validate(given_grid)
        words = JaxLayout.model_validate(given_layout)
        mesh, spec = grid.to_jax(), words.to_jax()
        assert DeviceGrid.from_jax(mesh) == grid
        back = JaxLayout.from_jax(spec, words.shape)
        assert back == words.model_copy(update={"padded_from": None}), (back, words)
        sharding = jax.sharding.NamedSharding(mesh, spec)
        by_rank = {
            device.id: at for device, at in sharding.devices_indices_map(words.shape).items()
        }
        answers.append(
            [
                [list(at.indices(n)[:2]) for at, n in zip(by_rank[rank], words.shape, strict=True)]
                for rank in grid.ranks
            ]
        )
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
