"""What rules say that ops save is what PyTorch saves, kind by kind and in a whole model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from examples.models.gpt_unfused import Gpt, Sizes
from meshwright.capture import capture_hf, capture_module, interpret
from meshwright.schema import Budget, Graph, Setup
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from tests.capture.as_written import attention_as_written
from tests.capture.saved_by_torch import kept_bytes, kept_of_op
from tests.capture.test_models import real_model, text_inputs
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology, toy_calibration

T = torch.Tensor
BATCH, SEQ = 3, 12
FLOAT = 4  # bytes; everything runs in float32


def rows(shape: Sequence[int]) -> int:
    return int(torch.Size(shape[:-1]).numel())


# what PyTorch keeps besides, in bytes, by kind: numbers of whole rows, which no rule counts
BESIDES: Mapping[str, Callable[[list[T]], int]] = {
    "layer_norm": lambda x: 2 * rows(x[0].shape) * FLOAT,  # mean, reciprocal deviation
    "batch_norm": lambda x: 2 * x[0].shape[1] * FLOAT,
    "group_norm": lambda x: 2 * x[0].shape[0] * 2 * FLOAT,  # of the two groups of the case
    "attention": lambda x: rows(x[0].shape) * FLOAT,  # logarithms of the sums
    "cross_entropy": lambda _: FLOAT,  # the total weight, one number
    # kept for its sizes alone
    "gather": lambda x: x[0].numel() * FLOAT,
}
# run as several ops by the interpreter, by one kernel in frameworks: no measure
COMPOSED = {"rms_norm", "moe_dispatch", "moe_combine"}


def check(graph: Graph, values: Mapping[str, T], symbols: Mapping[str, int]) -> set[str]:
    """Compare every op whose result has a gradient; the kinds that were compared."""
    setup = Setup(symbols=dict(symbols), microbatches=1, execution="eager")
    problem = build_problem(graph, topology(1), setup, toy_calibration())
    found = find_values(problem)
    made = {
        k: v.detach() for k, v in interpret(graph, values, symbols=symbols, slots="stated").items()
    }
    gradient = {name for name, info in problem.tensors.items() if info.has_gradient}
    free = {t.name for t in graph.tensors if t.role == "parameter"}
    compared = set()
    for position, info in enumerate(problem.ops):
        op = info.op
        if position in found.views or gradient.isdisjoint(op.outputs) or op.kind in COMPOSED:
            continue
        assert info.known is not None, op.kind
        saved = {op.inputs[k] for k in found.saved_inputs[position]}
        saved |= {op.outputs[k] for k in info.known.rule.saves_outputs}
        ours = sum(problem.tensors[name].bytes for name in saved - free)
        besides = BESIDES.get(op.kind, lambda _: 0)([made[name] for name in op.inputs])
        instant = op.model_copy(update={"attrs": numbers(op.attrs, symbols)})
        assert ours + besides == kept_of_op(graph, instant, made, gradient, free), op
        compared.add(op.kind)
    return compared


def numbers(attrs: Mapping[str, Any], symbols: Mapping[str, int]) -> dict[str, Any]:
    """Attrs with the symbols' values in place of their names."""
    return {key: symbols.get(value, value) if isinstance(value, str) else value
            for key, value in attrs.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        ("llama", {"attention", "linear", "mul", "silu", "rotary", "embedding", "cross_entropy"}),
        ("gpt2", {"attention", "linear", "gelu", "layer_norm", "embedding", "cross_entropy"}),
        ("bert", {"attention", "linear", "gelu", "layer_norm", "embedding", "tanh"}),
        ("mixtral", {"expert_matmul", "topk", "softmax", "div", "silu", "mul"}),
    ],
)
def test_ops_of_captured_models_save_what_torch_saves(family, kinds, config):
    settings = config(family)
    module = real_model(settings)
    graph = capture_hf(settings, batch=BATCH, seq=SEQ, name=family)
    values = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    values |= text_inputs(module, next_sentence=family == "bert")
    assert check(graph, values, {"batch": BATCH, "seq": SEQ}) >= kinds


class OnParameters(torch.nn.Module):
    """A function of tensors, those of floats made from parameters."""

    def __init__(self, function: Callable[..., T], tensors: Sequence[T]) -> None:
        super().__init__()
        self.function = function
        self.own = torch.nn.ParameterList(t for t in tensors if t.is_floating_point())
        self.floats = [t.is_floating_point() for t in tensors]

    def forward(self, **given: T) -> T:
        own, rest = iter(self.own), iter(given.values())
        args = [torch.neg(next(own)) if is_float else next(rest) for is_float in self.floats]
        return self.function(*args).sum()


def number(*shape: int) -> T:
    return -torch.rand(shape) - 0.1  # negated on the way to the function


def place(most: int, *shape: int) -> T:
    return torch.randint(0, most, shape)


POINT = (
    "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "abs", "cos", "sin", "erf", "log1p",
    "expm1", "neg", "square",
)  # fmt: skip
ACTIVATIONS = (
    "relu", "silu", "gelu", "softplus", "elu", "leaky_relu", "hardswish", "hardsigmoid", "mish",
)  # fmt: skip
image, matrix, other = number(2, 4, 6, 6), number(3, 4), number(3, 4)
CASES: Mapping[str, tuple[Callable[..., T], Sequence[T]]] = {
    **{name: (getattr(torch, name), (matrix,)) for name in POINT},
    **{name: (getattr(F, name), (matrix,)) for name in ACTIVATIONS},
    "pow": (lambda a: a**3, (matrix,)),
    "clamp": (lambda a: a.clamp(0.2, 0.5), (matrix,)),
    "add": (torch.add, (matrix, other)),
    "mul": (torch.mul, (matrix, other)),
    "mul by a number": (lambda a: a * 3, (matrix,)),
    "div": (torch.div, (matrix, other)),
    "maximum": (torch.maximum, (matrix, other)),
    "minimum": (torch.minimum, (matrix, other)),
    "where": (lambda a, b: torch.where(a.detach() > 0.5, a, b), (matrix, other)),
    "masked_fill": (lambda a, b: a.masked_fill(b.detach() > 0.5, 0.0), (matrix, other)),
    "cast": (lambda a: a.double(), (matrix,)),
    "dropout": (lambda a: F.dropout(a, 0.5), (matrix,)),
    "softmax": (lambda a: a.softmax(-1), (matrix,)),
    "log_softmax": (lambda a: a.log_softmax(-1), (matrix,)),
    "sum": (lambda a: a.sum(-1), (matrix,)),
    "mean": (lambda a: a.mean(-1), (matrix,)),
    "amax": (lambda a: a.amax(-1), (matrix,)),
    "prod": (lambda a: a.prod(-1), (matrix,)),
    "cumsum": (lambda a: a.cumsum(-1), (matrix,)),
    "topk": (lambda a: a.topk(2)[0], (matrix,)),
    "sort": (lambda a: a.sort()[0], (matrix,)),
    "gather": (lambda a, b: a.gather(1, b), (matrix, place(4, 3, 2))),
    "index": (lambda a, b: a[b], (matrix, place(3, 2))),
    "concat": (lambda a, b: torch.cat([a, b]), (matrix, other)),
    "linear": (F.linear, (matrix, number(5, 4), number(5))),
    "matmul": (torch.matmul, (number(2, 3, 4), number(2, 4, 5))),
    "attention": (F.scaled_dot_product_attention, (number(2, 4, 3, 8),) * 3),
    "avg_pool": (lambda a: F.avg_pool2d(a, 2), (image,)),
    "upsample": (lambda a: F.interpolate(a, scale_factor=2), (image,)),
    "conv": (F.conv2d, (image, number(5, 4, 3, 3))),
    "conv_transpose": (F.conv_transpose2d, (image, number(4, 5, 2, 2))),
    "batch_norm": (torch.nn.BatchNorm2d(4), (image,)),
    "group_norm": (torch.nn.GroupNorm(2, 4), (image,)),
    "layer_norm": (torch.nn.LayerNorm(4), (matrix,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_op_saves_what_torch_saves(name):
    function, tensors = CASES[name]
    module = OnParameters(function, tensors)
    places = {f"x{k}": t for k, t in enumerate(tensors) if not t.is_floating_point()}
    graph = capture_module(
        module,
        lambda _: {key: tensor.to("meta") for key, tensor in places.items()},
        symbols={},
        name="case",
    )
    values = {**dict(module.named_parameters()), **dict(module.named_buffers()), **places}
    kind = name.removesuffix(" by a number")
    assert check(graph, values, {}) >= {"square": {"pow"}, "index": {"index"}}.get(kind, {kind})


def test_a_whole_model_keeps_what_its_plan_says():
    sizes = Sizes(4, 32, 2, 1, 1, BATCH, sequence=SEQ, vocabulary=97)
    module = Gpt(sizes, sizes.layers)
    inputs = {name: place(97, BATCH, SEQ) for name in ("ids", "labels")}
    with attention_as_written():
        graph = capture_module(
            module, lambda _: {k: v.to("meta") for k, v in inputs.items()}, symbols={}, name="gpt"
        )
    setup, budget = Setup(microbatches=1, execution="eager"), Budget(max_axes=1)
    answer = plan(toy_request(graph=graph, topology=topology(1), setup=setup, budget=budget))
    assert answer.plan is not None
    own = dict(module.named_parameters())
    found, _ = kept_bytes(
        lambda: interpret(graph, {**own, **inputs}), [*own.values(), *inputs.values()]
    )
    norms = 5 * 2 * BATCH * SEQ * FLOAT  # means and deviations of five norms
    free = SEQ * FLOAT * 2 + 2 * SEQ * SEQ  # places, as int64, and a mask in each layer
    total_weight = FLOAT  # of the loss, one number
    activations = answer.plan.cost.memory_bytes.activations
    assert found == activations + norms + free + total_weight
