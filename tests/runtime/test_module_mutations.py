"""A module that differs from the captured one by a single choice is refused; the same is not."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from meshwright.runtime.torch.module_check import ModuleCheck
from meshwright.runtime.torch.module_check.parameter_check import check_parameters
from meshwright.schema import Graph, ModuleMismatch
from tests.runtime.block_models import (
    BlockModel,
    block_graph,
    block_model,
    captured_block,
    compared,
)

T = torch.Tensor
EQUAL = ModuleCheck("graph")


def checked(module: nn.Module, graph: Graph) -> ModuleCheck:
    check_parameters(graph, graph.instantiate({}), module)
    return compared(module, graph)


class FiveTimesTheGradient(torch.autograd.Function):
    """The identity, with another gradient."""

    @staticmethod
    def forward(ctx: Any, x: T) -> T:
        del ctx
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, gradient: T) -> T:  # type: ignore[override]  # of one input
        del ctx
        return 5 * gradient


class TheGradient(FiveTimesTheGradient):
    """The identity with its gradient, as a kernel has it."""

    @staticmethod
    def backward(ctx: Any, gradient: T) -> T:  # type: ignore[override]  # of one input
        del ctx
        return gradient


def without_gradient(x: T) -> T:
    with torch.no_grad():
        return x * 2


CHOICES: dict[str, dict[str, Any]] = {
    "another activation": {"activation": F.relu},
    "the approximation of the activation": {"activation": lambda x: F.gelu(x, approximate="tanh")},
    "another slope": {"activation": lambda x: F.leaky_relu(x, 0.02)},
    "another epsilon": {"epsilon": 1e-6},
    "another norm": {"norm": "rms"},
    "no causal mask": {"is_causal": False},
    "another number of heads": {"heads": 2},
    "heads that mix positions": {"rows_of_heads": True},
    "another scale of attention": {"scale": 0.25},
    "five times the residual": {"residual": 5.0},
    "no bias": {"has_bias": False},
    "no dropout": {"dropout": 0.0},
    "another dropout": {"dropout": 0.2},
    "dropout of attention": {"attention_dropout": 0.1},
    "one table for words and logits": {"is_tied": True},
    "norms after the parts": {"is_post_norm": True},
    "positions from one": {"first": 1},
    "a transposed projection": {"transposes": True},
    "query and key swapped": {"swaps": True},
    "the sum of losses": {"reduction": "sum"},
    "another ignored label": {"ignored": 0},
    "smoothed labels": {"smoothing": 0.1},
    "another temperature": {"temperature": 2.0},
    "capped logits": {"cap": 30.0},
    "parts in another order": {"order": ("feed_forward", "attention")},
    "one part twice": {"order": ("attention", "attention")},
    "a cast": {"inner": lambda x: x.bfloat16().float()},
    "a clamp": {"inner": lambda x: x.clamp(-4, 4)},
    "positions reversed": {"inner": lambda x: x.flip(1)},
    "positions moved by one": {"inner": lambda x: x.roll(1, 1)},
    "the smallest numbers": {"inner": lambda x: x * x.topk(1, largest=False)[0]},
    "the largest numbers": {"inner": lambda x: x * x.topk(1)[0]},
    "noise": {"inner": lambda x: x + torch.randn_like(x)},
    "a detached tensor": {"inner": lambda x: x.detach()},
    "a part without gradient": {"inner": without_gradient},
}


@pytest.mark.rotating
@pytest.mark.parametrize("name", CHOICES)
def test_a_module_with_another_choice_is_refused(name: str) -> None:
    with pytest.raises(ModuleMismatch):
        checked(block_model(**CHOICES[name]), captured_block())


@pytest.mark.rotating
@pytest.mark.parametrize("name", CHOICES)
def test_the_same_module_is_accepted(name: str) -> None:
    graph = block_graph(block_model(**CHOICES[name]))
    assert checked(block_model(**CHOICES[name]), graph) == EQUAL


def test_an_autograd_function_is_compared_by_gradients() -> None:
    graph = captured_block(dropout=0.0)
    right, wrong = (
        block_model(dropout=0.0, inner=function.apply)
        for function in (TheGradient, FiveTimesTheGradient)
    )
    assert checked(right, graph) == EQUAL
    (note,) = [note for note in block_graph(wrong).notes if "backward" in note]
    assert note.startswith(f"the backward of {__name__}.FiveTimesTheGradient is not captured")
    with pytest.raises(ModuleMismatch, match=r"the gradient of '.*' has the norm"):
        checked(wrong, graph)
    with_dropout = checked(block_model(inner=TheGradient.apply), captured_block())
    assert with_dropout.method == "graph"
    assert "TheGradient were not compared, as a step with dropout" in with_dropout.reason


def frozen(module: BlockModel) -> None:
    module.down.weight.requires_grad_(False)


def forward_hook(module: BlockModel) -> None:
    module.up.register_forward_hook(lambda _module, _inputs, result: 2 * result)


def forward_pre_hook(module: BlockModel) -> None:
    module.up.register_forward_pre_hook(lambda _module, inputs: (2 * inputs[0],))


def backward_hook(module: BlockModel) -> None:
    module.up.register_full_backward_hook(lambda _module, into, _out: (2 * into[0],))


def gradient_hook(module: BlockModel) -> None:
    module.up.weight.register_hook(lambda gradient: 2 * gradient)


def scaled_gradient(module: BlockModel) -> None:
    module.words.scale_grad_by_freq = True


def evaluation(module: BlockModel) -> None:
    module.eval()


def evaluation_of_one_part(module: BlockModel) -> None:
    module.drop.eval()


def another_forward(module: BlockModel) -> None:
    def forward(self: BlockModel, ids: T, labels: T) -> T:
        return 2 * BlockModel.forward(self, ids, labels)

    module.forward = MethodType(forward, module)  # type: ignore[method-assign]


def narrower(module: BlockModel) -> None:
    module.bfloat16()


def narrower_norm(module: BlockModel) -> None:
    module.norms[0].double()


CHANGES: tuple[tuple[Callable[[BlockModel], None], str], ...] = (
    (frozen, "parameter 'down.weight' is trainable in the plan's graph graph_.*, and frozen in"),
    (forward_hook, "the module has mul"),
    (forward_pre_hook, "the module has mul"),
    (backward_hook, "module 'up' has a backward hook"),
    (gradient_hook, "parameter 'up.weight' of the module has a gradient hook"),
    (scaled_gradient, "module 'words' scales its gradient by frequency"),
    (evaluation, r"in training mode, and it is in evaluation mode.* Call module.train\(\)"),
    (evaluation_of_one_part, r"in training mode, and it is in .* Call module.train\(\)"),
    (another_forward, "The plan's graph .* has no further op .* the module has mul"),
    (narrower, "parameter 'words.weight' is float32 .* and bfloat16 in the module"),
    (narrower_norm, r"'words.weight' and 'norms.0.weight' are float32 .* float32 and float64 in"),
)


@pytest.mark.rotating
@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_module_changed_in_place_is_refused(
    change: Callable[[BlockModel], None], message: str
) -> None:
    module = block_model()
    change(module)
    with pytest.raises(ModuleMismatch, match=message):
        checked(module, captured_block())


def test_a_plan_without_dropout_names_the_mode_of_its_capture() -> None:
    graph = block_graph(block_model().eval())
    with pytest.raises(ModuleMismatch, match=r"is in training mode: .* Call module.eval\(\)"):
        checked(block_model(), graph)
    assert checked(block_model().eval(), graph) == EQUAL


def test_the_smallest_and_the_largest_numbers_differ() -> None:
    graph = block_graph(block_model(**CHOICES["the smallest numbers"]))
    with pytest.raises(ModuleMismatch):
        checked(block_model(**CHOICES["the largest numbers"]), graph)


def test_a_literal_tensor_has_no_value_in_a_plan() -> None:
    scales = {"inner": lambda x: x * torch.tensor([1.0, 2.0] * (x.shape[-1] // 2))}
    with pytest.raises(ModuleMismatch, match=r"has the constant '.*', .* with register_buffer"):
        checked(block_model(**scales), block_graph(block_model(**scales)))


def test_a_forward_that_no_copy_has_is_not_compared() -> None:
    module = block_model()
    forward = module.forward
    module.forward = lambda ids, labels: forward(ids, labels)  # type: ignore[method-assign]
    result = checked(module, captured_block())
    assert result.method == "none"
    assert "the forward of 'BlockModel' is a function of this instance" in result.reason


class CommutedBlock(BlockModel):
    """The same sums, with their terms and independent parts in another order."""

    def attention(self, x: T) -> T:
        value, key, query = (self.heads(part(x)) for part in (self.value, self.key, self.query))
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: T = self.out(seen.transpose(2, 1).flatten(2))
        return result


class CheckpointedBlock(BlockModel):
    """The feed-forward part is recomputed in the backward pass."""

    def feed_forward(self, x: T) -> T:
        result: T = checkpoint(super().feed_forward, x, use_reentrant=False)
        return result


class LoggingBlock(BlockModel):
    """A statistic of detached activations that does not reach the loss."""

    def feed_forward(self, x: T) -> T:
        self.seen = x.detach().abs().mean()
        return super().feed_forward(x)


class WideBlock(BlockModel):
    """A parameter that the forward does not read."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.spare = nn.Linear(3, 3)


@pytest.mark.parametrize("kind", [CommutedBlock, CheckpointedBlock, LoggingBlock, WideBlock])
def test_a_module_that_computes_the_same_is_accepted(kind: type[BlockModel]) -> None:
    assert checked(kind(block_model().choices), captured_block()) == EQUAL


def test_a_module_in_float64_or_with_a_silent_hook_is_accepted() -> None:
    module = block_model().double()
    module.up.register_forward_hook(lambda _module, _inputs, _result: None)
    assert checked(module, captured_block()) == EQUAL


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "heads": st.sampled_from((2, 8)),
        "activation": st.sampled_from((F.relu, F.silu, torch.tanh)),
        "epsilon": st.sampled_from((1e-6, 1e-3)),
        "norm": st.just("rms"),
        "is_causal": st.just(False),
        "scale": st.sampled_from((0.3, 1.0)),
        "residual": st.sampled_from((0.5, 5.0)),
        "has_bias": st.just(False),
        "dropout": st.sampled_from((0.0, 0.3)),
        "is_tied": st.just(True),
        "is_post_norm": st.just(True),
        "reduction": st.just("sum"),
        "temperature": st.sampled_from((0.5, 2.0)),
    },
)


@settings(
    max_examples=12, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
@given(FIELDS, FIELDS)
def test_modules_are_accepted_exactly_by_the_plans_of_their_choices(
    captured: dict[str, Any], changes: dict[str, Any]
) -> None:
    graph = block_graph(block_model(**captured))
    assert compared(block_model(**captured), graph) == EQUAL
    module = block_model(**changes)
    if module.choices == block_model(**captured).choices:
        assert compared(module, graph) == EQUAL
    else:
        with pytest.raises(ModuleMismatch):
            compared(module, graph)
