"""A small Llama as a JAX function, in float64 throughout; its layers one by one, or as a scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from meshwright.capture import JaxRecipe

A = jax.Array
HIDDEN, HEADS, GROUPS, WIDTH, INNER, VOCABULARY, LAYERS = 32, 4, 2, 8, 48, 64, 2
SEQ = 8


def norm(x: A, weight: A) -> A:
    return x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def turned(x: A) -> A:
    """Rotary positions of x [b, s, h, d]."""
    steps = jnp.arange(0, x.shape[-1], 2, dtype=x.dtype)
    angles = jnp.arange(x.shape[1], dtype=x.dtype)[:, None] * jnp.exp(steps * (-9.2 / x.shape[-1]))
    angles = jnp.concatenate([angles, angles], axis=-1)
    first, second = jnp.split(x, 2, axis=-1)
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    return x * cos + jnp.concatenate([-second, first], axis=-1) * sin


def attention(x: A, own: Mapping[str, A]) -> A:
    rows, length, _ = x.shape
    query = turned((x @ own["query"]).reshape(rows, length, HEADS, WIDTH))
    key = turned((x @ own["key"]).reshape(rows, length, GROUPS, WIDTH))
    value = (x @ own["value"]).reshape(rows, length, GROUPS, WIDTH)
    query = query.reshape(rows, length, GROUPS, HEADS // GROUPS, WIDTH)
    scores = jnp.einsum("bsgrd,btgd->bgrst", query, key) / WIDTH**0.5
    seen = jnp.arange(length)[:, None] >= jnp.arange(length)[None, :]
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
    mixed = jnp.einsum("bgrst,btgd->bsgrd", weights, value)
    return mixed.reshape(rows, length, HEADS * WIDTH) @ own["out"]


def layer(x: A, own: Mapping[str, A]) -> A:
    x = x + attention(norm(x, own["attention_norm"]), own)
    y = norm(x, own["mlp_norm"])
    return x + (jax.nn.silu(y @ own["gate"]) * (y @ own["up"])) @ own["down"]


def of_logits(x: A, params: Mapping[str, Any], labels: A) -> A:
    """The mean over the labels that are not negative."""
    logits = norm(x, params["norm"]) @ params["head"]
    chosen = jnp.take_along_axis(
        jax.nn.log_softmax(logits), jnp.maximum(labels, 0)[..., None], axis=-1
    )[..., 0]
    counts = (labels >= 0).astype(logits.dtype)
    return -(chosen * counts).sum() / counts.sum()


def llama(params: Mapping[str, Any], ids: A, labels: A) -> A:
    x = params["table"][ids]
    for own in params["layers"]:
        x = layer(x, own)
    return of_logits(x, params, labels)


def scanned(params: Mapping[str, Any], ids: A, labels: A) -> A:
    """The same with its layers stacked."""

    def body(x: A, own: Mapping[str, A]) -> tuple[A, None]:
        return layer(x, own), None

    x, _ = lax.scan(body, params["table"][ids], params["layers"])
    return of_logits(x, params, labels)


SHAPES = {
    "attention_norm": (HIDDEN,), "mlp_norm": (HIDDEN,), "query": (HIDDEN, HEADS * WIDTH),
    "key": (HIDDEN, GROUPS * WIDTH), "value": (HIDDEN, GROUPS * WIDTH),
    "out": (HEADS * WIDTH, HIDDEN), "gate": (HIDDEN, INNER), "up": (HIDDEN, INNER),
    "down": (INNER, HIDDEN),
}  # fmt: skip


def arguments(form: str) -> Callable[[Mapping[str, int]], tuple[Any, ...]]:
    """Shapes of the function's arguments by sizes: of layers one by one, or `scanned`."""

    def of(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float64)

    def made(sizes: Mapping[str, int]) -> tuple[Any, ...]:
        if form == "scanned":
            layers: Any = {name: of(LAYERS, *shape) for name, shape in SHAPES.items()}
        else:
            layers = [{name: of(*shape) for name, shape in SHAPES.items()} for _ in range(LAYERS)]
        ids = jax.ShapeDtypeStruct((sizes["batch"], sizes["seq"]), jnp.int32)
        params = {
            "table": of(VOCABULARY, HIDDEN),
            "layers": layers,
            "norm": of(HIDDEN),
            "head": of(HIDDEN, VOCABULARY),
        }
        return params, ids, ids

    return made


FUNCTIONS = {"llama": llama, "scanned": scanned}


def recipe(model: str, rows: int) -> JaxRecipe:
    """What is captured: microbatches of so many rows."""
    return JaxRecipe("llama", FUNCTIONS[model], arguments(model), {"batch": rows, "seq": SEQ})


def parameters(model: str) -> Any:
    """Random ones, the same each time; norms near one."""
    random = np.random.default_rng(0)

    def drawn(path: Any, own: jax.ShapeDtypeStruct) -> A:
        is_norm = "norm" in str(path[-1])
        return jnp.asarray(float(is_norm) + 0.1 * random.normal(size=own.shape))

    shapes = arguments(model)({"batch": 1, "seq": 1})[0]
    return jax.tree_util.tree_map_with_path(drawn, shapes)


def batch(rows: int, step: int) -> tuple[A, A]:
    """Ids, and labels of which rows have different numbers."""
    random = np.random.default_rng(step)
    ids = jnp.asarray(random.integers(0, VOCABULARY, (rows, SEQ)), jnp.int32)
    kept = jnp.arange(SEQ) >= jnp.arange(rows)[:, None] % 5
    return ids, jnp.where(kept, ids, -1)
