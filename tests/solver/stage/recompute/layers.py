"""Small residual networks with attention of single ops, for recompute."""

from __future__ import annotations

from meshwright.schema import Graph
from tests.solver.small_graphs import GraphMaker


def layered(layers: int, *, wide: frozenset[int] = frozenset()) -> Graph:
    """norm, query and key by one product, scores, softmax, context, up, gelu, down, twice added.

    wide: layers whose inner size is four times that of the others.
    """
    make = GraphMaker(batch=16)
    x = make.input("x", "batch", 4, 64)
    x = make.op("linear", [x, make.parameter("w_in", 64, 64)], ["batch", 4, 64], "into")
    for k in range(layers):
        width = 512 if k in wide else 128
        row = ["batch", 4, 64]
        n = make.op("layer_norm", [x, make.parameter(f"{k}.n", 64)], row, f"{k}.norm")
        q = make.op("linear", [n, make.parameter(f"{k}.q", 64, 64)], row, f"{k}.query")
        s = make.op("matmul", [q, make.op("transpose", [n], ["batch", 64, 4], f"{k}.turn",
                    attrs={"dims": [0, 2, 1]})], ["batch", 4, 4], f"{k}.scores")  # fmt: skip
        p = make.op("softmax", [s], ["batch", 4, 4], f"{k}.softmax")
        c = make.op("matmul", [p, q], row, f"{k}.context")
        x = make.op("add", [x, c], row, f"{k}.add")
        up = make.parameter(f"{k}.up.w", width, 64)
        down = make.parameter(f"{k}.down.w", 64, width)
        u = make.op("linear", [x, up], ["batch", 4, width], f"{k}.up")
        g = make.op("gelu", [u], ["batch", 4, width], f"{k}.gelu")
        d = make.op("linear", [g, down], row, f"{k}.down")
        x = make.op("add", [x, d], row, f"{k}.out")
    loss = make.op("mean", [x], [], "loss", attrs={"dims": [0, 1, 2]})
    return make.graph(loss, loss=loss)


def under_autocast(graph: Graph) -> Graph:
    """The graph with a cast of the parameter before every product with one."""
    fields = graph.to_dict()
    tensors = {tensor["name"]: tensor for tensor in fields["tensors"]}
    ops = []
    for op in fields["ops"]:
        if op["kind"] == "linear":
            weight = tensors[op["inputs"][1]]
            cast = f"{weight['name']}.cast"
            dtype = weight["dtype"]
            fields["tensors"].append({"name": cast, "shape": weight["shape"], "dtype": dtype})
            attrs = {"dtype": dtype}
            ops.append(
                {"name": cast, "kind": "cast", "inputs": [weight["name"]], "outputs": [cast],
                 "attrs": attrs}
            )  # fmt: skip
            op["inputs"][1] = cast
        ops.append(op)
    return Graph.from_dict({**fields, "ops": ops})
