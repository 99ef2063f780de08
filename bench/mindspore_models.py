"""The four models on which MindSpore's searches are measured, as graphs: op for op what they run.

They are the networks of a script that runs MindSpore's own search (its sizes are the defaults
here). Weights are float16, losses float32; a linear layer is a product and an addition. An op's
module is the path of the MindSpore cell that runs it, and within a module ops come in the order in
which MindSpore numbers its operators. Its strategies leave out reshapes and casts.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from meshwright.schema import Graph

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"

Shape = Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Twin:
    """A model's graph. operators: op -> the MindSpore operator that it stands for."""

    graph: Graph
    operators: Mapping[str, str]


class _Cells:
    """A graph as it is written, cell by cell; every method gives the name of what it made."""

    def __init__(self, name: str, **symbols: int) -> None:
        self._name = name
        self._symbols = symbols
        self._tensors: list[dict[str, Any]] = []
        self._ops: list[dict[str, Any]] = []
        self._shapes: dict[str, list[int | str]] = {}
        self._operators: dict[str, str] = {}

    def tensor(self, name: str, role: str, dtype: str, *shape: int | str) -> str:
        own = list(shape)
        self._tensors.append({"name": name, "shape": own, "dtype": dtype, "role": role})
        self._shapes[name] = own
        return name

    def weight(self, name: str, *shape: int | str) -> str:
        return self.tensor(name, "parameter", "float16", *shape)

    def shape(self, name: str) -> list[int | str]:
        return self._shapes[name]

    def op(
        self,
        name: str,
        operator: str,
        kind: str,
        inputs: Sequence[str],
        shape: Shape,
        *,
        dtype: str = "float16",
        **attrs: Any,
    ) -> str:
        """An op named after its place in its cell: `blocks.0.ln1` runs in the cell `blocks.0`."""
        made = self.tensor(f"{name}:out", "activation", dtype, *shape)
        self._ops.append(
            {
                "name": name,
                "kind": kind,
                "inputs": list(inputs),
                "outputs": [made],
                "attrs": attrs,
                "module": name.rpartition(".")[0],
            }
        )
        self._operators[name] = operator
        return made

    def linear(self, cell: str, x: str, wide: int) -> str:
        *rows, narrow = self.shape(x)
        weight, bias = self.weight(f"{cell}.w", narrow, wide), self.weight(f"{cell}.b", wide)
        product = self.op(f"{cell}.matmul", "MatMul", "matmul", [x, weight], [*rows, wide])
        return self.op(f"{cell}.add", "Add", "add", [product, bias], [*rows, wide])

    def same(self, name: str, operator: str, kind: str, *inputs: str, **attrs: Any) -> str:
        """An op whose result is shaped like its first input."""
        return self.op(name, operator, kind, inputs, self.shape(inputs[0]), **attrs)

    def reshape(self, name: str, x: str, *shape: int | str) -> str:
        return self.op(name, "Reshape", "reshape", [x], shape)

    def transpose(self, name: str, x: str) -> str:
        """Rows and heads change places."""
        a, b, c, d = self.shape(x)
        return self.op(name, "Transpose", "transpose", [x], [a, c, b, d], dims=[0, 2, 1, 3])

    def class_loss(self, logits: str, label: str) -> str:
        """Cross entropy with whole rows of numbers for the labels, in float32, and its mean."""
        rows, classes = self.shape(logits)
        target = self.op(
            "loss.one_hot", "OneHot", "one_hot", [label], [rows, classes],
            dtype="float32", classes=classes,
        )  # fmt: skip
        scores = self.same("loss.cast", "Cast", "cast", logits, dtype="float32")
        losses = self.op(
            "loss.ce", "SoftmaxCrossEntropyWithLogits", "softmax_cross_entropy", [scores, target],
            [rows], dtype="float32",
        )  # fmt: skip
        return self.op(
            "loss.mean", "ReduceMean", "mean", [losses], [], dtype="float32", dims=[0]
        )  # fmt: skip

    def twin(self, loss: str) -> Twin:
        graph = Graph.from_dict(
            {
                "name": self._name,
                "symbols": self._symbols,
                "tensors": self._tensors,
                "ops": self._ops,
                "outputs": [loss],
                "loss": loss,
            }
        )
        return Twin(graph, dict(self._operators))


def mlp(*, hidden: int = 1024, batch: int = 64, classes: int = 1000) -> Twin:
    """Three wide layers and a loss over classes."""
    cells = _Cells("mindspore-mlp", batch=batch)
    x = cells.tensor("x", "input", "float16", "batch", hidden)
    label = cells.tensor("label", "label", "int32", "batch")
    x = cells.same("act", "ReLU", "relu", cells.linear("fc1", x, 4 * hidden))
    x = cells.same("act2", "ReLU", "relu", cells.linear("fc2", x, 4 * hidden))
    return cells.twin(cells.class_loss(cells.linear("fc3", x, classes), label))


def gpt(
    *,
    layers: int = 1,
    hidden: int = 1024,
    heads: int = 16,
    batch: int = 64,
    sequence: int = 1024,
    vocab: int = 51200,
    masks: Literal["one", "each"] = "one",
) -> Twin:
    """A decoder with attention in single ops, 26 a layer: no fused kernel, biases, GeLU.

    masks: one for the whole batch, or each sample its own.
    """
    cells = _Cells(f"mindspore-gpt-{layers}x{hidden}", batch=batch, seq=sequence)
    ids = cells.tensor("ids", "input", "int32", "batch", "seq")
    samples = 1 if masks == "one" else "batch"
    mask = cells.tensor("mask", "input", "float16", samples, 1, "seq", "seq")
    label = cells.tensor("label", "label", "int32", "batch*seq")
    scale = cells.tensor("scale", "constant", "float16")
    table = cells.weight("wte", vocab, hidden)
    x = cells.op("gather", "Gather", "embedding", [table, ids], ["batch", "seq", hidden])
    x = cells.reshape("reshape", x, "batch*seq", hidden)
    for layer in range(layers):
        x = _block(cells, f"blocks.{layer}", x, heads, mask, scale)
    x = _norm(cells, "ln", x)
    head = cells.weight("head.w", hidden, vocab)
    logits = cells.op("head", "MatMul", "matmul", [x, head], ["batch*seq", vocab])
    return cells.twin(cells.class_loss(logits, label))


def _norm(cells: _Cells, name: str, x: str) -> str:
    width = cells.shape(x)[-1]
    scale, shift = cells.weight(f"{name}.g", width), cells.weight(f"{name}.b", width)
    return cells.same(name, "LayerNorm", "layer_norm", x, scale, shift)


def _block(cells: _Cells, cell: str, x: str, heads: int, mask: str, scale: str) -> str:
    rows, hidden = cells.shape(x)
    assert isinstance(hidden, int)
    split = ("batch", "seq", heads, hidden // heads)
    scores = ("batch", heads, "seq", "seq")

    def at(name: str) -> str:
        return f"{cell}.{name}"

    y = _norm(cells, at("ln1"), x)
    q, k, v = (
        cells.transpose(
            at(f"t{name}"),
            cells.reshape(at(f"r{name}"), cells.linear(at(name), y, hidden), *split),
        )
        for name in "qkv"
    )
    p = cells.op(at("qk"), "BatchMatMul", "matmul", [q, k], scores, transpose_b=True)
    p = cells.same(at("mask"), "Add", "add", cells.same(at("scale"), "Mul", "mul", p, scale), mask)
    p = cells.same(at("softmax"), "Softmax", "softmax", p, dim=-1)
    z = cells.op(at("pv"), "BatchMatMul", "matmul", [p, v], cells.shape(v))
    z = cells.reshape(at("ro"), cells.transpose(at("to"), z), rows, hidden)
    x = cells.same(at("res1"), "Add", "add", x, cells.linear(at("o"), z, hidden))
    y = cells.linear(at("up"), _norm(cells, at("ln2"), x), 4 * hidden)
    y = cells.linear(at("down"), cells.same(at("gelu"), "GeLU", "gelu", y), hidden)
    return cells.same(at("res2"), "Add", "add", x, y)


def reid(*, batch: int = 64, classes: int = 1000) -> Twin:
    """A small convolutional trunk on images of 64 x 32, and one wide layer of classes."""
    cells = _Cells("mindspore-reid", batch=batch)
    image = cells.tensor("image", "input", "float16", "batch", 3, 64, 32)
    label = cells.tensor("label", "label", "int32", "batch")
    x = image
    for name, channels, size in (("1", 64, (32, 16)), ("2", 512, (16, 8))):
        weight = cells.weight(f"w{name}", channels, cells.shape(x)[1], 3, 3)
        made = ("batch", channels, *size)
        x = cells.op(
            f"c{name}", "Conv2D", "conv", [x, weight], made, stride=[2, 2], padding=[1, 1]
        )  # fmt: skip
        x = cells.same(f"r{name}", "ReLU", "relu", x)
    x = cells.op("pool", "ReduceMean", "mean", [x], ["batch", 512], dims=[2, 3])
    x = cells.linear("feat", x, 2048)
    weight = cells.weight("wf", 2048, classes)
    logits = cells.op("fc", "MatMul", "matmul", [x, weight], ["batch", classes])
    return cells.twin(cells.class_loss(logits, label))


def widedeep(*, batch: int = 64, vocab: int = 51200) -> Twin:
    """39 fields looked up in a table of 80 columns and one of 1, and a network of five layers."""
    cells = _Cells("mindspore-widedeep", batch=batch)
    fields, dim = 39, 80
    ids = cells.tensor("ids", "input", "int32", "batch", fields)
    value = cells.tensor("value", "input", "float16", "batch", fields, 1)
    label = cells.tensor("label", "label", "float16", "batch", 1)

    def looked_up(name: str, width: int) -> str:
        table = cells.weight(f"{name}.t", vocab, width)
        rows = cells.op(
            f"{name}_gather", "Gather", "embedding", [table, ids], ["batch", fields, width]
        )  # fmt: skip
        return cells.same(f"{name}_mul", "Mul", "mul", rows, value)

    x = cells.reshape("reshape", looked_up("deep", dim), "batch", fields * dim)
    for layer, width in enumerate((1024, 512, 256, 128, 1)):
        x = cells.linear(f"fcs.{layer}", x, width)
        if layer < 4:
            x = cells.same(f"acts.{layer}.relu", "ReLU", "relu", x)
    wide = cells.op("sum", "ReduceSum", "sum", [looked_up("wide", 1)], ["batch", 1], dims=[1])
    x = cells.same("add", "Add", "add", x, wide)
    losses = cells.same("ce", "SigmoidCrossEntropyWithLogits", "sigmoid_cross_entropy", x, label)
    return cells.twin(cells.op("mean", "ReduceMean", "mean", [losses], [], dims=[0, 1]))


def example(name: str, symbols: Mapping[str, int]) -> Graph:
    """A stored example with these sizes."""
    graph = _stored(name)
    return graph.model_copy(update={"symbols": {**graph.symbols, **symbols}})


@cache
def _stored(name: str) -> Graph:
    return Graph.from_json(gzip.decompress((GRAPHS / f"{name}.json.gz").read_bytes()))


MODELS: Mapping[str, Callable[..., Twin]] = {
    "mlp": mlp,
    "gpt": gpt,
    "reid": reid,
    "widedeep": widedeep,
}
