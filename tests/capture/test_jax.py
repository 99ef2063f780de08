"""JAX functions: their graphs compute the same, loss and gradients, and say what was annotated."""

import math
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec
from typer.testing import CliRunner

from meshwright.capture import JaxRecipe, capture_jax, interpret
from meshwright.cli import cli
from meshwright.cli.pins import parse_pin
from meshwright.plugins.planner import find_planner, preset
from meshwright.schema import Graph, GraphError
from tests.one_stage import one_stage_request

S = jax.ShapeDtypeStruct
BATCH, SEQ = 2, 6


def language(params, ids, labels):
    """A decoder whose layers are one scan."""

    def layer(x, own):
        normed = x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5) * own["norm"]
        q, k, v = (jnp.einsum("bsd,dhk->bshk", normed, own[name]) for name in "qkv")
        scores = jnp.einsum("bshk,bthk->bhst", q, k) / 8**0.5
        seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
        mixed = jnp.einsum("bhst,bthk->bshk", weights, v)
        x = x + jnp.einsum("bshk,hkd->bsd", mixed, own["out"])
        with jax.named_scope("mlp"):
            return x + jax.nn.silu(x @ own["up"]) @ own["down"], None

    x, _ = lax.scan(layer, params["table"][ids], params["layers"])
    logits = x @ params["table"].T
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -chosen.mean()


def language_arguments(sizes):
    def real(*shape):
        return S(shape, jnp.float32)

    layers = {
        "norm": real(3, 32),
        **{name: real(3, 32, 4, 8) for name in "qkv"},
        "out": real(3, 4, 8, 32),
        "up": real(3, 32, 64),
        "down": real(3, 64, 32),
    }
    ids = S((sizes["batch"], sizes["seq"]), jnp.int32)
    return {"table": real(97, 32), "layers": layers}, ids, ids


def images(params, pixels, labels):
    """A convolution network, channels last."""
    dims = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(pixels, params["first"], (2, 2), "SAME", dimension_numbers=dims)
    x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = (
        x
        - lax.reduce_window(
            x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
        )[:, :2, :2]
    )
    x = jnp.concatenate([x, jnp.flip(x, 1)], -1).mean((1, 2))
    logits = x @ params["head"] + params["bias"]
    hot = jax.nn.one_hot(labels, 10)
    return (jax.nn.logsumexp(logits, -1) - (logits * hot).sum(-1)).mean()


def images_arguments(sizes):
    params = {
        "first": S((3, 3, 3, 8), jnp.float32),
        "head": S((16, 10), jnp.float32),
        "bias": S((10,), jnp.float32),
    }
    pixels = S((sizes["batch"], 8, 8, 3), jnp.float32)
    return params, pixels, S((sizes["batch"],), jnp.int32)


MODELS = {
    "language": (language, language_arguments, {"batch": 64, "seq": 128}),
    "images": (images, images_arguments, {"batch": 64}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_function_trains_the_same_as_its_graph(name):
    function, arguments, symbols = MODELS[name]
    graph = capture_jax(JaxRecipe(name, function, arguments, symbols))
    assert graph.symbols == symbols
    assert not [op.kind for op in graph.ops if "." in op.kind]
    sizes = {"batch": BATCH, "seq": SEQ}
    random = np.random.default_rng(0)
    params, *inputs = arguments(sizes)
    params = jax.tree.map(lambda s: random.normal(size=s.shape).astype("float32") * 0.3, params)
    inputs = [
        random.integers(0, 10, s.shape).astype("int32")
        if s.dtype == jnp.int32
        else random.normal(size=s.shape).astype("float32")
        for s in inputs
    ]
    loss, gradients = jax.value_and_grad(function)(params, *inputs)
    names = [t.name for t in graph.tensors if t.role in ("input", "label")]
    leaves = {
        name: torch.tensor(whole, requires_grad=True)
        for name, whole in per_step(params, graph).items()
    }
    given = {name: torch.tensor(value) for name, value in zip(names, inputs, strict=True)}
    made = interpret(graph, {**leaves, **given}, symbols={key: sizes[key] for key in symbols})
    np.testing.assert_allclose(made[graph.loss].item(), loss, rtol=1e-5)
    found = torch.autograd.grad(made[graph.loss], list(leaves.values()))
    wanted = per_step(gradients, graph)
    for own, gradient in zip(leaves, found, strict=True):
        np.testing.assert_allclose(gradient, wanted[own], rtol=1e-3, atol=1e-5, err_msg=own)


def per_step(tree, graph):
    """Parameters by the names of the graph: stacked ones apart."""
    parameters = {t.name for t in graph.tensors if t.role == "parameter"}
    found = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = ".".join(own.key for own in path)
        for step in range(leaf.shape[0]):
            found[f"{name}.{step}"] = np.asarray(leaf[step])
        found[name] = np.asarray(leaf)
    return {name: value for name, value in found.items() if name in parameters}


def test_layers_of_a_scan_are_alike_and_named_after_its_body():
    function, arguments, symbols = MODELS["language"]
    graph = capture_jax(JaxRecipe("language", function, arguments, symbols))
    layers = [
        [(op.kind, op.name.split(f"layer.{n}")[1]) for op in graph.ops if f"layer.{n}" in op.name]
        for n in range(3)
    ]
    assert layers[0] == layers[1] == layers[2]
    assert any(op.name.startswith("layer.0.mlp") for op in graph.ops)
    assert graph.tensor("layers.up.2").shape == (32, 64)
    assert [note for note in graph.notes if note.startswith("layers.up ")]


MESH = AbstractMesh((2, 4), ("data", "model"))


def annotated(params, x):
    with jax.named_scope("wide"):
        wide = x @ params["up"]
        wide = lax.with_sharding_constraint(
            wide, NamedSharding(MESH, PartitionSpec("data", "model"))
        )
    return (jax.nn.relu(wide) @ params["down"]).mean()


def annotated_arguments(sizes):
    up = S((256, 512), jnp.float32, sharding=NamedSharding(MESH, PartitionSpec(None, "model")))
    params = {"up": up, "down": S((512, 256), jnp.float32)}
    return params, S((sizes["batch"], 256), jnp.float32)


def test_annotations_of_shardings_are_pins_that_a_plan_keeps():
    graph = capture_jax(JaxRecipe("net", annotated, annotated_arguments, {"batch": 64}))
    said = [note.removeprefix("pin ") for note in graph.notes if note.startswith("pin ")]
    assert said == ["wide.linear:(_,(1,4,),)->((2,4,),)"]
    pins = [parse_pin(text) for text in said]
    answer = find_planner()(one_stage_request(graph=graph, topology=preset("h100-1x8"), pins=pins))
    assert answer.plan is not None
    stage = answer.plan.stages[0]
    mesh = {axis.name: axis.size for axis in stage.mesh.axes}
    (strategy,) = [own.strategy for own in stage.ops if own.op == "wide.linear"]
    ways = {factor: math.prod(mesh[a] for a in axes) for factor, axes in strategy.items()}
    # batch over data, columns over model, as P("data", "model") says
    assert ways == {"b0": 2, "n": 4}


def test_a_scan_over_a_symbol_is_refused_by_name():
    def function(params, x):
        made, _ = lax.scan(lambda h, row: (jnp.tanh(h @ params + row), None), x[0], x)
        return made.sum()

    def arguments(sizes):
        return S((4, 4), jnp.float32), S((sizes["seq"], 4), jnp.float32)

    with pytest.raises(GraphError, match="a scan of seq steps"):
        capture_jax(JaxRecipe("recurrent", function, arguments, {"seq": 8}))


def test_norms_and_softmax_are_recognised_where_they_are_written_out():
    def function(params, x):
        scale = lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        first, second = jnp.split(jax.nn.softmax(x * scale * params, axis=-1), 2, axis=-1)
        return jnp.squeeze(first[:, None] * second[:, None], 1).mean()

    def arguments(sizes):
        return S((8,), jnp.float32), S((sizes["batch"], 8), jnp.float32)

    graph = capture_jax(JaxRecipe("norm", function, arguments, {"batch": 8}))
    kinds = [op.kind for op in graph.ops if op.kind not in ("reshape", "transpose")]
    assert kinds == ["rms_norm", "softmax", "split", "mul", "mean"]


def test_what_has_no_kind_keeps_its_name():
    def function(params, x):
        return lax.lgamma(x @ params).sum()

    def arguments(sizes):
        return S((4, 4), jnp.float32), S((sizes["batch"], 4), jnp.float32)

    graph = capture_jax(JaxRecipe("gamma", function, arguments, {"batch": 8}))
    assert "jax.lgamma.default" in [op.kind for op in graph.ops]
    assert "jax.lgamma.default" in graph.notes[0]


def test_a_function_that_fails_is_an_error_of_its_own_words():
    def function(params, x):
        return x @ params

    def arguments(sizes):
        return S((5, 4), jnp.float32), S((sizes["batch"], 4), jnp.float32)

    with pytest.raises(GraphError, match="cannot trace odd: TypeError: dot_general"):
        capture_jax(JaxRecipe("odd", function, arguments, {"batch": 8}))


def test_a_factory_must_give_a_recipe():
    with pytest.raises(GraphError, match="no function 'nothing'"):
        capture_jax("tests.capture.test_jax:nothing")
    with pytest.raises(GraphError, match="is not of the form"):
        capture_jax("tests.capture.test_jax")


def test_the_example_of_the_docs_is_captured_from_the_shell(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "capture.md").read_text()
    (example,) = re.findall(r"```python\n(import jax.*?)```", page, re.DOTALL)
    (tmp_path / "my_models.py").write_text(example)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    arguments = ["capture", "jax", "my_models:recipe", "--batch", "96", "-o", "graph.json"]
    ran = CliRunner().invoke(cli, arguments)
    assert ran.exit_code == 0, ran.output
    graph = Graph.from_json((tmp_path / "graph.json").read_text())
    assert graph.symbols == {"batch": 96}
    assert [op.kind for op in graph.ops][:3] == ["linear", "relu", "linear"]


def test_sizes_are_given_by_symbol():
    def function(params, x):
        return (x @ params["w"]).mean()

    def arguments(sizes):
        params = {"w": S((16, 8), jnp.float32)}
        return params, S((sizes["batch"], sizes["seq"], 16), jnp.float32)

    recipe = JaxRecipe("product", function, arguments, {"batch": 8, "seq": 32})
    assert capture_jax(recipe, sizes={"seq": 64}).symbols == {"batch": 8, "seq": 64}
    with pytest.raises(GraphError, match="no symbol 'depth' for 2 to stand for"):
        capture_jax(recipe, sizes={"depth": 2})
