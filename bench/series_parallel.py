"""Random series-parallel operator graphs: chains, forks and joins, one inside the other.

A graph of n ops is one op, two graphs in a row, or two side by side that read one tensor and are
joined by an op. Activations are [batch, sequence, width], weights [wide, narrow] of some widths,
so that there are few shapes; no op has more than two inputs. Equal sizes and seeds make equal
graphs.
"""

from __future__ import annotations

import random
from typing import Any

from meshwright.schema import Graph

WIDTHS = (256, 384, 512, 640, 768, 896, 1024)  # chosen: 7 activations and 49 weights, 56 shapes
BATCH, SEQUENCE = 64, 128  # chosen: 100,000 ops then fit on 64 devices of 80 GB
_UNARY = ("gelu", "relu", "tanh", "softmax")
_JOINS = ("add", "mul")
_SIDE_BY_SIDE = 0.4  # chosen: two ops in five are a fork or a join
_LINEAR = 0.5


def series_parallel(ops: int, *, seed: int = 0) -> Graph:
    """A graph of so many ops, one at the least, with a parameter for every product."""
    builder = _Builder(random.Random(seed))
    made = builder.between(builder.tensor("x", "input", WIDTHS[0]), ops, WIDTHS[0])
    return Graph.from_dict(
        {
            "name": f"series-parallel-{ops}",
            "symbols": {"batch": BATCH},
            "tensors": builder.tensors,
            "ops": builder.ops,
            "outputs": [made],
        }
    )


class _Builder:
    def __init__(self, choose: random.Random) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self._choose = choose
        self._width: dict[str, int] = {}

    def tensor(self, name: str, role: str, width: int) -> str:
        shape = ["batch", SEQUENCE, width]
        self.tensors.append({"name": name, "shape": shape, "dtype": "bfloat16", "role": role})
        self._width[name] = width
        return name

    def between(self, x: str, ops: int, width: int) -> str:
        """A graph of so many ops that reads x and makes a tensor of this width."""
        if ops == 1:
            return self._single(x, width)
        if ops > 2 and self._choose.random() < _SIDE_BY_SIDE:
            # a side without ops is a skip connection
            least = 0 if self._width[x] == width else 1
            left = self._choose.randint(1, ops - 1 - least)
            first = self.between(x, left, width)
            right = ops - 1 - left
            second = self.between(x, right, width) if right else x
            return self._op(self._choose.choice(_JOINS), [first, second], width)
        first_ops = self._choose.randint(1, ops - 1)
        middle = self.between(x, first_ops, self._choose.choice(WIDTHS))
        return self.between(middle, ops - first_ops, width)

    def _single(self, x: str, width: int) -> str:
        narrow = self._width[x]
        if narrow == width and self._choose.random() >= _LINEAR:
            return self._op(self._choose.choice(_UNARY), [x], width)
        weight = f"w{len(self.ops)}"
        self.tensors.append(
            {
                "name": weight,
                "shape": [width, narrow],
                "dtype": "bfloat16",
                "role": "parameter",
            }
        )
        return self._op("linear", [x, weight], width)

    def _op(self, kind: str, inputs: list[str], width: int) -> str:
        name = f"{kind}{len(self.ops)}"
        made = self.tensor(f"t{len(self.ops)}", "activation", width)
        attrs = {"dim": -1} if kind == "softmax" else {}
        self.ops.append(
            {"name": name, "kind": kind, "inputs": inputs, "outputs": [made], "attrs": attrs}
        )
        return made
