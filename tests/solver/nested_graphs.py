"""Networks of layers in groups of groups, for the tests of folding."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from meshwright.schema import Graph
from tests.solver.small_graphs import GraphMaker

WIDTH = 64  # of what goes from layer to layer
Layers = Sequence["int | tuple[int, Layers]"]  # inner widths, or how often and what


def residual(layers: Layers) -> Graph:
    """A residual network; a layer is two products with a ReLU between them, added to its input."""
    make = GraphMaker(batch=16)
    table = make.tensor("table", [WIDTH], "constant")
    x = make.input("x", "batch", WIDTH)
    x = make.op("linear", [x, make.parameter("w_in", WIDTH, WIDTH)], ["batch", WIDTH], "into")
    for number, width in enumerate(flat(layers)):
        x = _layer(make, str(number), x, table, width)
    loss = make.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    return make.graph(loss, loss=loss)


def flat(layers: Layers) -> list[int]:
    """The inner widths of all layers, in order."""
    found: list[int] = []
    for own in layers:
        if isinstance(own, int):
            found.append(own)
        else:
            found += own[0] * flat(own[1])
    return found


def _layer(make: GraphMaker, name: str, x: str, table: str, width: int) -> str:
    up = make.parameter(f"{name}.up", width, WIDTH)
    down = make.parameter(f"{name}.down", WIDTH, width)
    inner = make.op("linear", [x, up], ["batch", width], f"{name}.first")
    inner = make.op("relu", [inner], ["batch", width], f"{name}.relu")
    outer = make.op("linear", [inner, down], ["batch", WIDTH], f"{name}.second")
    scaled = make.op("mul", [outer, table], ["batch", WIDTH], f"{name}.scale")
    return make.op("add", [x, scaled], ["batch", WIDTH], f"{name}.add")


def drawn(seed: int) -> list[int | tuple[int, list[int | tuple[int, list[int]]]]]:
    """Groups of runs of layers, most of them repeated often enough to be folded; some odd ones."""
    random = Random(seed)
    widths = (128, 192, 256, 512)

    def runs() -> list[int | tuple[int, list[int]]]:
        found: list[int | tuple[int, list[int]]] = []
        for _ in range(random.randint(1, 2)):
            body = random.choices(widths, k=random.randint(1, 2))
            found.append((random.randint(6, 9), body))
            found += random.choices(widths, k=random.randint(0, 2))
        return found

    group = runs()
    layers: list[int | tuple[int, list[int | tuple[int, list[int]]]]] = []
    layers += random.choices(widths, k=random.randint(0, 2))
    layers.append((random.randint(7, 9), group))
    if random.random() < 0.5:  # a group of other length, or cut short
        layers += [(1, runs()), (1, group[:1])]
    return layers
