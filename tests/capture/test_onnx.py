"""ONNX models: their graphs compute what the models compute, and what is no graph is refused."""

import warnings

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn
from typer.testing import CliRunner

from meshwright.capture import capture_onnx, interpret
from meshwright.cli import cli
from meshwright.schema import Graph, GraphError


def tensors_of(path):
    """The initialisers of a file that holds them."""
    model = onnx.load(path)
    return {own.name: torch.tensor(numpy_helper.to_array(own)) for own in model.graph.initializer}


def exported(module, inputs, path, dims):
    with warnings.catch_warnings():
        # torch's exporter warns of its own deprecations
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            path,
            dynamo=True,
            optimize=False,
            verbose=False,
            external_data=False,
            input_names=list(inputs),
            dynamic_shapes=dims,
        )
    return path


class Block(nn.Module):
    """One layer of a decoder, attention as torch's exporter writes it out."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(97, 32)
        self.norm = nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 128, bias=False), nn.Linear(128, 97)

    def forward(self, ids):
        x = self.table(ids)
        heads = (*x.shape[:2], 4, 8)
        q, k, v = (y.view(heads).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return self.down(F.gelu(self.up(x)))


class Images(nn.Module):
    """A convolution network with what its exporters write."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm, self.groups = nn.BatchNorm2d(8), nn.GroupNorm(2, 8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.head = nn.Linear(8, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.norm(self.first(images))), 2)
        x = x + self.groups(F.hardswish(self.second(x)))
        return self.head(F.interpolate(x, scale_factor=2).mean((2, 3)))


def test_a_decoder_computes_the_same_as_its_graph(tmp_path):
    torch.manual_seed(0)
    module, ids = Block().eval(), torch.randint(0, 97, (3, 12))
    batch, seq = torch.export.Dim("batch"), torch.export.Dim("seq")
    path = exported(module, {"ids": ids}, tmp_path / "block.onnx", {"ids": {0: batch, 1: seq}})
    graph = capture_onnx(path, sizes={"batch": 8, "seq": 32})
    assert graph.notes == ()
    assert graph.symbols == {"batch": 8, "seq": 32}
    assert graph.tensor("qkv.weight").role == "parameter"
    assert graph.tensor(graph.outputs[0]).shape == ("batch", "seq", 97)
    kinds = {op.kind for op in graph.ops}
    assert {"embedding", "linear", "layer_norm", "attention", "gelu"} <= kinds
    made = interpret(graph, {**tensors_of(path), "ids": ids}, symbols={"batch": 3, "seq": 12})
    torch.testing.assert_close(made[graph.outputs[0]], module(ids), rtol=1e-4, atol=1e-5)


def test_an_image_model_computes_the_same_as_its_graph(tmp_path):
    torch.manual_seed(0)
    module, images = Images().eval(), torch.randn(2, 3, 16, 16)
    dims = {"images": {0: torch.export.Dim("batch")}}
    path = exported(module, {"images": images}, tmp_path / "images.onnx", dims)
    graph = capture_onnx(path, sizes={"batch": 64})
    assert graph.notes == ()
    made = interpret(graph, {**tensors_of(path), "images": images}, symbols={"batch": 2})
    torch.testing.assert_close(made[graph.outputs[0]], module(images), rtol=1e-4, atol=1e-5)


def built(*nodes, inputs, output, initializers=(), opset=20):
    """A model of one output with inputs of these types and shapes."""
    infos = [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()]
    graph = helper.make_graph(list(nodes), "made", infos, [output], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def saved(model, folder):
    path = folder / "made.onnx"
    onnx.save(model, path)
    return path


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def node(kind, inputs, **attrs):
    return helper.make_node(kind, inputs.split(), ["y"], name=f"/one/{kind}", **attrs)


X = {"x": (TensorProto.FLOAT, ["batch", 4, 6])}
IMAGE = {"x": (TensorProto.FLOAT, ["batch", 4, 9, 9])}
CASES = {
    "unary": (node("Erf", "x"), X, ()),
    "reciprocal": (node("Reciprocal", "x"), X, ()),
    "softplus": (node("Softplus", "x"), X, ()),
    "elu": (node("Elu", "x", alpha=0.7), X, ()),
    "leaky": (node("LeakyRelu", "x"), X, ()),
    "number in front": (
        node("Sub", "one x"),
        X,
        [numpy_helper.from_array(np.float32(3), "one")],
    ),
    "number divided": (
        node("Div", "one x"),
        X,
        [numpy_helper.from_array(np.float32(3), "one")],
    ),
    "many": (node("Max", "x x x"), X, ()),
    "slices": (
        node("Slice", "x starts ends axes steps"),
        X,
        [ints("starts", 1, -5), ints("ends", 3, 1000), ints("axes", 1, 2), ints("steps", 1, 2)],
    ),
    "row": (node("Gather", "x at", axis=1), X, [numpy_helper.from_array(np.int64(-1), "at")]),
    "pad": (node("Pad", "x pads"), X, [ints("pads", 0, 1, 2, 0, 0, 1)]),
    "tile": (node("Tile", "x times"), X, [ints("times", 1, 2, 3)]),
    "sum": (node("ReduceSum", "x axes", keepdims=0), X, [ints("axes", -1)]),
    "norm": (node("ReduceL2", "x axes"), X, [ints("axes", 1)]),
    "place": (node("ArgMax", "x", axis=2), X, ()),
    "triangle": (node("Trilu", "x", upper=0), X, ()),
    "one-sided pool": (
        node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        IMAGE,
        (),
    ),
    "mean of all": (node("GlobalAveragePool", "x"), IMAGE, ()),
    "one-sided conv": (
        node("Conv", "x w", pads=[0, 1, 2, 1], strides=[2, 2]),
        IMAGE,
        [numpy_helper.from_array(np.ones((5, 4, 3, 3), np.float32) / 7, "w")],
    ),
    "instance norm": (
        node("InstanceNormalization", "x scale shift"),
        IMAGE,
        [
            numpy_helper.from_array(np.arange(4, dtype=np.float32), "scale"),
            numpy_helper.from_array(np.ones(4, np.float32), "shift"),
        ],
    ),
    "gemm": (
        helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1),
        {"x": (TensorProto.FLOAT, ["batch", 6])},
        [
            numpy_helper.from_array(np.ones((5, 6), np.float32) / 3, "w"),
            numpy_helper.from_array(np.arange(5, dtype=np.float32), "b"),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_operator_computes_what_the_reference_does(case, tmp_path):
    made, inputs, initializers = CASES[case]
    y = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    model = built(made, inputs=inputs, output=y, initializers=initializers)
    graph = capture_onnx(saved(model, tmp_path), sizes={"batch": 50})
    assert graph.notes == ()
    shape = [2 if size == "batch" else size for size in inputs["x"][1]]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    given = {own.name: torch.tensor(numpy_helper.to_array(own)) for own in initializers}
    found = interpret(graph, {**given, "x": torch.tensor(x)}, symbols={"batch": 2})
    np.testing.assert_allclose(found[graph.outputs[0]], wanted, rtol=1e-5, atol=1e-6)


def test_a_reshape_by_computed_sizes_follows_the_symbols(tmp_path):
    # y = reshape(x, [shape(x)[0], 24])
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "zero"], ["rows"], axis=0),
        helper.make_node("Concat", ["rows", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [ints("zero", 0), ints("rest", 24)]
    model = built(*nodes, inputs=X, output=y, initializers=weights)
    graph = capture_onnx(saved(model, tmp_path), sizes={"batch": 50})
    assert [op.kind for op in graph.ops] == ["reshape"]
    assert graph.tensor(graph.outputs[0]).shape == ("batch", 24)


def test_weights_in_another_file_are_not_read(tmp_path):
    w = numpy_helper.from_array(np.ones((6, 5), np.float32), "w")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = built(node("MatMul", "x w"), inputs=X, output=y, initializers=[w])
    path = tmp_path / "made.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "weights").unlink()
    graph = capture_onnx(path, sizes={"batch": 50})
    assert graph.tensor("w").role == "parameter"
    assert graph.ops[0].kind == "linear"


def test_a_first_output_of_one_element_is_the_loss(tmp_path):
    made = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["y"], reduction="mean")
    inputs = {"x": (TensorProto.FLOAT, ["batch", 7]), "labels": (TensorProto.INT64, ["batch"])}
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    path = saved(built(made, inputs=inputs, output=y), tmp_path)
    graph = capture_onnx(path, sizes={"batch": 50})
    assert graph.loss == graph.outputs[0]
    assert graph.tensor("labels").role == "label"


def test_an_operator_without_a_kind_keeps_its_name(tmp_path):
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    path = saved(built(node("Selu", "x"), inputs=X, output=y), tmp_path)
    graph = capture_onnx(path, sizes={"batch": 50})
    assert graph.ops[0].kind == "onnx.Selu.default"
    assert graph.ops[0].module == "one"
    assert "onnx.Selu.default" in graph.notes[0]


Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
BRANCH = helper.make_graph(
    [helper.make_node("Identity", ["x"], ["z"])],
    "branch",
    [],
    [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
)


@pytest.mark.parametrize(
    ("model", "sizes", "message"),
    [
        (built(node("Relu", "x"), inputs=X, output=Y), {}, "'batch' have no size.*--size batch=32"),
        (built(node("Relu", "x"), inputs=X, output=Y), {"batch": 8, "b": 2}, "no dim 'b'"),
        (built(node("Relu", "x"), inputs=X, output=Y, opset=11), {"batch": 8}, "opset 11"),
        (built(node("Relu", "z"), inputs=X, output=Y), {"batch": 8}, "reads 'z'"),
        (built(node("AllReduce", "x"), inputs=X, output=Y), {"batch": 8}, "AllReduce.*between"),
        (built(node("NonZero", "x"), inputs=X, output=Y), {"batch": 8}, "NonZero.*depends on"),
        (
            built(
                helper.make_node("If", ["c"], ["y"], then_branch=BRANCH, else_branch=BRANCH),
                inputs={**X, "c": (TensorProto.BOOL, [])},
                output=Y,
            ),
            {"batch": 8},
            "'y' .If. has a subgraph",
        ),
        (
            built(node("Relu", "x"), inputs={"x": (TensorProto.FLOAT, [None])}, output=Y),
            {},
            "without name or size",
        ),
    ],
)
def test_what_is_no_graph_is_refused(model, sizes, message, tmp_path):
    with pytest.raises(GraphError, match=message):
        capture_onnx(saved(model, tmp_path), sizes=sizes)


def test_a_file_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(GraphError, match="cannot read"):
        capture_onnx(tmp_path / "missing.onnx")
    path = tmp_path / "text.onnx"
    path.write_text("no model at all")
    with pytest.raises(GraphError, match="no ONNX model"):
        capture_onnx(path)


def test_the_command_line_gives_sizes_to_named_dims(tmp_path):
    path = saved(built(node("Relu", "x"), inputs=X, output=Y), tmp_path)
    out = tmp_path / "graph.json"
    arguments = ["capture", "onnx", str(path), "-o", str(out)]
    ran = CliRunner().invoke(cli, [*arguments, "--size", "batch=32"])
    assert ran.exit_code == 0, ran.output
    assert Graph.from_json(out.read_text()).symbols == {"batch": 32}
    wrong = CliRunner().invoke(cli, [*arguments, "--size", "batch"])
    assert isinstance(wrong.exception, GraphError)
    assert "NAME=NUMBER" in str(wrong.exception)
