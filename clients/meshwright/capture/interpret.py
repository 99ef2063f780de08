"""Run a Graph in PyTorch: the meaning of every canonical kind, in one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from meshwright.schema import Graph, Op
from meshwright.schema.sizes import evaluate

T = torch.Tensor


@dataclass(frozen=True)
class _Run:
    """One op under way: its inputs, attrs with sizes in numbers, and what its outputs are."""

    inputs: list[T]
    attrs: dict[str, Any]
    shapes: list[tuple[int, ...]]
    dtypes: list[torch.dtype]
    op: Op
    capacity_factor: float | None

    @property
    def x(self) -> T:
        return self.inputs[0]


Kernel = Callable[[_Run], Any]


def interpret(
    graph: Graph,
    values: Mapping[str, T],
    *,
    symbols: Mapping[str, int] | None = None,
    dtypes: Mapping[str, torch.dtype] | None = None,
    capacity_factor: float | None = None,
) -> dict[str, T]:
    """All tensors of the graph by name, autograd included.

    values: the tensors that no op makes. dtypes: run a dtype of the graph as another one.
    capacity_factor: over the graph's own, so that no token of a mixture is dropped.
    Raises NotImplementedError for a kind without a meaning here.
    """
    sizes = {**graph.symbols, **(symbols or {})}
    shapes = graph.instantiate(symbols or {})
    names = {t.name: t.dtype for t in graph.tensors}
    made = dict(values)

    def dtype(name: str) -> torch.dtype:
        return (dtypes or {}).get(name, getattr(torch, name))

    for op in graph.ops:
        run = _Run(
            [made[name] for name in op.inputs],
            {key: _number(value, sizes, dtype) for key, value in op.attrs.items()},
            [shapes[name] for name in op.outputs],
            [dtype(names[name]) for name in op.outputs],
            op,
            capacity_factor,
        )
        result = KERNELS.get(op.kind, _aten)(run)
        results = result if isinstance(result, (list, tuple)) else [result]
        made.update(zip(op.outputs, results, strict=False))
    return made


def _number(value: Any, sizes: Mapping[str, int], dtype: Callable[[str], torch.dtype]) -> Any:
    """An attr with its sizes, dtypes and infinities read."""
    if isinstance(value, list):
        return [_number(item, sizes, dtype) for item in value]
    if not isinstance(value, str):
        return value
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(getattr(torch, value, None), torch.dtype):
        return dtype(value)
    if any(symbol in value for symbol in sizes):
        return evaluate(value, sizes)
    return value


def _aten(run: _Run) -> Any:
    """An op that kept its ATen name, with its arguments where `tensors` says they go."""
    namespace, *rest = run.op.kind.split(".")
    if len(rest) != 2 or "tensors" not in run.attrs:
        raise NotImplementedError(f"op {run.op.name!r}: kind {run.op.kind!r} has no meaning here")
    operator = getattr(getattr(getattr(torch.ops, namespace), rest[0]), rest[1])
    arguments = {key: value for key, value in run.attrs.items() if key != "tensors"}
    for place, tensor in zip(run.attrs["tensors"], run.inputs, strict=True):
        name, _, position = place.partition(".")
        if position:
            items = arguments.setdefault(name, [])
            items += [None] * (int(position) + 1 - len(items))
            items[int(position)] = tensor
        else:
            arguments[name] = tensor
    return operator(**arguments)


def _binary(function: Callable[..., T]) -> Kernel:
    def kernel(run: _Run) -> T:
        other = run.inputs[1] if len(run.inputs) > 1 else run.attrs["other"]
        if not isinstance(other, T) and function in (torch.logical_and, torch.logical_or):
            other = torch.tensor(other)
        return function(run.x, other)

    return kernel


def _reduction(function: Callable[..., T]) -> Kernel:
    def kernel(run: _Run) -> T:
        if not run.attrs["dims"]:
            return run.x
        return function(run.x, dim=run.attrs["dims"], keepdim=run.attrs["keepdim"])

    return kernel


def _product(run: _Run) -> T:
    result = run.x
    for dim in sorted(run.attrs["dims"], reverse=True):
        result = result.prod(dim=dim, keepdim=run.attrs["keepdim"])
    return result


def _linear(run: _Run) -> T:
    weight = run.inputs[1] if run.attrs["weight_layout"] == "nk" else run.inputs[1].T
    return F.linear(run.x, weight, *run.inputs[2:])


def _attention(run: _Run) -> T:
    query, key, value, *mask = run.inputs
    return F.scaled_dot_product_attention(
        query,
        key,
        value,
        *mask,
        is_causal=run.attrs["causal"],
        scale=run.attrs["scale"],
        enable_gqa=query.shape[1] != key.shape[1],
    )


def _convolution(run: _Run) -> T:
    attrs = run.attrs
    function = (F.conv1d, F.conv2d, F.conv3d)[run.x.dim() - 3]
    return function(
        *run.inputs,
        stride=attrs["stride"],
        padding=attrs["padding"],
        dilation=attrs["dilation"],
        groups=attrs["groups"],
    )


def _transposed_convolution(run: _Run) -> T:
    attrs = run.attrs
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[run.x.dim() - 3]
    return function(
        *run.inputs,
        stride=attrs["stride"],
        padding=attrs["padding"],
        output_padding=attrs["output_padding"],
        groups=attrs["groups"],
        dilation=attrs["dilation"],
    )


def _pool(*functions: Callable[..., T]) -> Kernel:
    def kernel(run: _Run) -> T:
        attrs = run.attrs
        return functions[run.x.dim() - 3](
            run.x, attrs["kernel"], stride=attrs["stride"], padding=attrs["padding"]
        )

    return kernel


def _upsample(run: _Run) -> T:
    attrs = run.attrs
    options = {"align_corners": attrs.get("align_corners", False)}
    return F.interpolate(
        run.x,
        size=list(run.shapes[0][2:]),
        mode=attrs["mode"],
        **({} if attrs["mode"] == "nearest" else options),
    )


def _cross_entropy(run: _Run) -> T:
    logits, labels = run.inputs
    loss = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        reduction=run.attrs["reduction"],
        ignore_index=run.attrs["ignore_index"],
    )
    return loss.reshape(labels.shape) if run.attrs["reduction"] == "none" else loss


def _rms_norm(run: _Run) -> T:
    x, weight = run.inputs
    wide = x.to(run.attrs.get("compute", x.dtype))
    dims = tuple(range(-int(run.attrs["dims"]), 0))
    scale = torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + run.attrs["eps"])
    return weight * (wide * scale).to(x.dtype)


def _layer_norm(run: _Run) -> T:
    shape = run.x.shape[-int(run.attrs["dims"]) :]
    return F.layer_norm(run.x, shape, *run.inputs[1:], eps=run.attrs["eps"])


def _batch_norm(run: _Run) -> T:
    x, weight, bias, *running = run.inputs
    training = run.attrs["training"]
    mean, var = running if running and not training else (None, None)
    return F.batch_norm(
        x, mean, var, weight, bias, training=training or mean is None, eps=run.attrs["eps"]
    )


def _group_norm(run: _Run) -> T:
    x, weight, bias = run.inputs
    return F.group_norm(x, run.attrs["groups"], weight, bias, eps=run.attrs["eps"])


def _rotary(run: _Run) -> T:
    x, cos, sin = run.inputs
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return x * cos.unsqueeze(1) + turned * sin.unsqueeze(1)


def _where(run: _Run) -> T:
    condition, *tensors = run.inputs
    rest = iter(tensors)
    kept, other = (
        run.attrs[name] if name in run.attrs else next(rest) for name in ("self", "other")
    )
    return torch.where(condition, kept, other)


def _masked_fill(run: _Run) -> T:
    x, mask, *fill = run.inputs
    return x.masked_fill(mask, fill[0] if fill else run.attrs["value"])


def _slice(run: _Run) -> T:
    attrs = run.attrs
    place: list[slice] = [slice(None)] * run.x.dim()
    place[attrs["dim"]] = slice(attrs["start"], attrs["end"])
    cut = run.x[tuple(place)]
    if attrs["step"] == 1:
        return cut
    return cut.index_select(attrs["dim"], torch.arange(0, cut.shape[attrs["dim"]], attrs["step"]))


def _pad(run: _Run) -> T:
    amounts = [n for pair in reversed(run.attrs["pads"]) for n in pair]
    return F.pad(run.x, amounts, mode=run.attrs["mode"], value=run.attrs["value"])


def _index(run: _Run) -> T:
    source, *given = run.inputs
    indices: list[Any] = [slice(None)] * (max(run.attrs["dims"]) + 1)
    for dim, index in zip(run.attrs["dims"], given, strict=True):
        indices[dim] = index
    return source[tuple(indices)]


def _scatter(run: _Run) -> T:
    x, index, *source = run.inputs
    if not source:
        return x.scatter(run.attrs["dim"], index, run.attrs["value"])
    return x.scatter(run.attrs["dim"], index, source[0])


def _slot_of(index: T, experts: int) -> T:
    """The slot of each (token, choice) at its expert, in the order of the sequence: [b, s, k]."""
    batch, length, choices = index.shape
    chosen = F.one_hot(index.reshape(batch, length * choices), experts)
    before = chosen.cumsum(dim=1) - chosen
    return (before * chosen).sum(-1).reshape(batch, length, choices)


def _capacity(run: _Run, index: T, experts: int) -> int:
    factor = run.capacity_factor or run.attrs["capacity_factor"]
    return math.ceil(factor * index.shape[1] * index.shape[2] / experts)


def _moe_dispatch(run: _Run) -> T:
    x, index = run.inputs
    experts = run.shapes[0][0]
    slots, capacity = _slot_of(index, experts), _capacity(run, index, experts)
    batch, length, choices = index.shape
    slotted = x.new_zeros(experts, batch, capacity + 1, x.shape[-1])
    row = torch.arange(batch)[:, None, None].expand_as(index)
    token = x[:, :, None, :].expand(batch, length, choices, x.shape[-1])
    # what finds no slot goes to one behind the last, which is cut off
    place = (index, row, slots.clamp(max=capacity))
    return slotted.index_put(place, token)[:, :, :capacity]


def _moe_combine(run: _Run) -> T:
    y, index, weight = run.inputs
    experts, capacity = y.shape[0], y.shape[2]
    slots = _slot_of(index, experts)
    row = torch.arange(index.shape[0])[:, None, None].expand_as(index)
    rows = y[index, row, slots.clamp(max=capacity - 1)]
    kept = weight * (slots < capacity)
    return (rows * kept[..., None]).sum(dim=2)


def _expert_matmul(run: _Run) -> T:
    equation = "ebch,efh->ebcf" if run.attrs["weight_layout"] == "efh" else "ebch,ehf->ebcf"
    return torch.einsum(equation, run.x, run.inputs[1])


def _roll(run: _Run) -> T:
    return torch.roll(run.x, run.attrs["shifts"], run.attrs["dims"])


KERNELS: dict[str, Kernel] = {
    **{
        name: (lambda run, function=getattr(torch, name): function(run.x))
        for name in (
            "neg",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "relu",
            "tanh",
            "sigmoid",
            "cos",
            "sin",
            "erf",
            "logical_not",
            "bitwise_not",
        )
    },  # fmt: skip
    **{
        name: _binary(getattr(torch, name))
        for name in (
            "add",
            "sub",
            "mul",
            "div",
            "eq",
            "ne",
            "lt",
            "gt",
            "le",
            "ge",
            "logical_and",
            "logical_or",
            "logical_xor",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "maximum",
            "minimum",
        )
    },  # fmt: skip
    **{
        name: _reduction(getattr(torch, name))
        for name in ("sum", "mean", "amax", "amin", "any", "all")
    },
    "prod": _product,
    "silu": lambda run: F.silu(run.x),
    "gelu": lambda run: F.gelu(run.x, approximate=run.attrs["approximate"]),
    "pow": lambda run: torch.pow(
        run.x, run.inputs[1] if len(run.inputs) > 1 else run.attrs["exponent"]
    ),
    "cast": lambda run: run.x.to(run.attrs["dtype"]),
    "clamp": lambda run: run.x.clamp(**run.attrs),
    "dropout": lambda run: F.dropout(run.x, run.attrs["p"]),
    "where": _where,
    "masked_fill": _masked_fill,
    "linear": _linear,
    "matmul": lambda run: run.x @ run.inputs[1],
    "attention": _attention,
    "conv": _convolution,
    "conv_transpose": _transposed_convolution,
    "max_pool": _pool(F.max_pool1d, F.max_pool2d, F.max_pool3d),
    "avg_pool": _pool(F.avg_pool1d, F.avg_pool2d, F.avg_pool3d),
    "upsample": _upsample,
    "embedding": lambda run: F.embedding(run.inputs[1], run.x),
    "cross_entropy": _cross_entropy,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "softmax": lambda run: run.x.softmax(run.attrs["dim"]),
    "log_softmax": lambda run: run.x.log_softmax(run.attrs["dim"]),
    "rotary": _rotary,
    "reshape": lambda run: run.x.reshape(run.shapes[0]),
    "transpose": lambda run: run.x.permute(run.attrs["dims"]),
    "expand": lambda run: run.x.expand(run.shapes[0]),
    "slice": _slice,
    "split": lambda run: run.x.split(run.attrs["sizes"], run.attrs["dim"]),
    "concat": lambda run: torch.cat(run.inputs, run.attrs["dim"]),
    "stack": lambda run: torch.stack(run.inputs, run.attrs["dim"]),
    "pad": _pad,
    "roll": _roll,
    "flip": lambda run: run.x.flip(run.attrs["dims"]),
    "tril": lambda run: run.x.tril(run.attrs["diagonal"]),
    "triu": lambda run: run.x.triu(run.attrs["diagonal"]),
    "arange": lambda run: torch.arange(
        run.attrs["start"], run.attrs["end"], run.attrs["step"], dtype=run.dtypes[0]
    ),
    "full": lambda run: torch.full(run.shapes[0], run.attrs["value"], dtype=run.dtypes[0]),
    "one_hot": lambda run: F.one_hot(run.x, run.attrs["classes"]),
    "gather": lambda run: run.x.gather(run.attrs["dim"], run.inputs[1]),
    "index_select": lambda run: run.x.index_select(run.attrs["dim"], run.inputs[1]),
    "index": _index,
    "scatter": _scatter,
    "scatter_add": lambda run: run.x.scatter_add(run.attrs["dim"], run.inputs[1], run.inputs[2]),
    "topk": lambda run: run.x.topk(run.attrs["k"], run.attrs["dim"]),
    "sort": lambda run: run.x.sort(run.attrs["dim"], run.attrs["descending"]),
    "argmax": lambda run: run.x.argmax(run.attrs["dim"], run.attrs["keepdim"]),
    "argmin": lambda run: run.x.argmin(run.attrs["dim"], run.attrs["keepdim"]),
    "cumsum": lambda run: run.x.cumsum(
        run.attrs["dim"], dtype=run.attrs.get("dtype", run.dtypes[0])
    ),
    "moe_dispatch": _moe_dispatch,
    "moe_combine": _moe_combine,
    "expert_matmul": _expert_matmul,
}
