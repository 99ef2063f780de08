"""Every kernel against torch: values, and vector-Jacobian products by autograd."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from meshwright_solver.rules import KINDS
from meshwright_solver.verification.execution.kernels import (
    KERNELS,
    Array,
    KernelCall,
    NotExecutable,
    ignored_label,
)
from tests.solver.verification.execution.all_cases import CASES, EXPERTS, RANDOM
from tests.solver.verification.execution.kernel_cases import (
    Case,
    case,
    geometry,
    meaning,
    named,
    real,
    whole,
)

torch.set_num_threads(1)

GRAPHS = sorted((Path(__file__).resolve().parents[4] / "examples" / "graphs").glob("*.json.gz"))

# kind -> why nothing runs it in numpy
NOT_EXECUTABLE: Mapping[str, str] = {
    "custom": "its function is the user's",
    "batch_parallel": "it stands for any function of single samples",
    "stand_alone": "it stands for any function",
}

# torch has a sixth in single precision here
SINGLE_CONSTANTS = ("hardsigmoid", "hardswish")
CROSS = {"reduction": "mean", "ignore_index": -100}


@pytest.mark.parametrize("given", CASES, ids=named)
def test_a_kernel_does_what_torch_does(given: Case) -> None:
    kind, attrs, inputs, shapes, by = given
    tensors = [torch.tensor(own, requires_grad=own.dtype == np.float64) for own in inputs]
    expected = meaning(kind, attrs, shapes, by)(tensors)
    call = KernelCall(kind, attrs, inputs, tuple(tuple(own.shape) for own in expected))

    outputs = KERNELS[kind].forward(call)
    for own, wanted in zip(outputs, expected, strict=True):
        assert own.dtype == wanted.detach().numpy().dtype
        np.testing.assert_allclose(own, wanted.detach().numpy(), rtol=1e-11, atol=1e-11)

    random = np.random.default_rng(11)
    sent = [
        torch.tensor(random.standard_normal(own.shape)) if own.requires_grad else None
        for own in expected
    ]
    numbers = tuple(None if own is None else own.numpy() for own in sent)
    received = KERNELS[kind].backward(call, outputs, numbers)
    differentiable = [tensor for tensor in tensors if tensor.requires_grad]
    wanted_gradients: list[torch.Tensor | None] = [None] * len(differentiable)
    if any(own is not None for own in sent):
        wanted_gradients = list(
            torch.autograd.grad(
                [own for own in expected if own.requires_grad],
                differentiable,
                [own for own in sent if own is not None],
                allow_unused=True,
            )
        )
    gradients = iter(wanted_gradients)
    for own_gradient, tensor in zip(received, tensors, strict=True):
        if not tensor.requires_grad:
            assert own_gradient is None
            continue
        wanted_gradient = next(gradients)
        if by is not None and wanted_gradient is None:
            continue
        full = torch.zeros_like(tensor) if wanted_gradient is None else wanted_gradient
        assert own_gradient is not None
        near = 1e-7 if kind in SINGLE_CONSTANTS else 1e-10
        np.testing.assert_allclose(own_gradient, full.detach(), rtol=10 * near, atol=near)


def test_every_kernel_is_compared_with_torch() -> None:
    apart = {kind for kind, *_ in (*EXPERTS, *RANDOM)}
    assert set(KERNELS) - {kind for kind, *_ in CASES} == apart


def test_every_kind_of_the_rules_has_a_kernel() -> None:
    assert set(KINDS) - set(KERNELS) == set(NOT_EXECUTABLE)


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.name)
def test_every_kind_of_the_stored_graphs_has_a_kernel(path: Path) -> None:
    with gzip.open(path) as file:
        kinds = {op["kind"] for op in json.load(file)["ops"]}
    assert kinds
    assert kinds <= set(KERNELS)


# zeros instead of a part of a summed dim leave the rest of the sum

SUMMED = [
    (case("linear", real(2, 3, 4), real(5, 4), weight_layout="nk"), {0: 2, 1: 1}),
    (case("linear", real(3, 4), real(4, 5), weight_layout="kn"), {0: 1, 1: 0}),
    (case("matmul", real(2, 3, 4), real(2, 4, 5)), {0: 2, 1: 1}),
    (case("expert_matmul", real(3, 2, 4, 6), real(3, 6, 5), weight_layout="ehf"), {0: 3, 1: 1}),
    (case("embedding", real(6, 3), whole(6, 2, 5)), {0: 0}),
    (case("conv", real(2, 4, 8), real(6, 4, 3), **geometry(1, 1, 1, 1, 1)), {0: 1, 1: 1}),
    (
        case(
            "conv_transpose", real(2, 4, 8), real(4, 6, 2), shapes=((2, 6, 16),),
            **geometry(2, 0, 1, 1, 1),
        ),
        {0: 1, 1: 0},
    ),
    (case("sum", real(4, 3), dims=[0], keepdim=False), {0: 0}),
    (case("mean", real(4, 3), dims=[0, 1], keepdim=False), {0: 0}),
    (case("moe_combine", real(2, 1, 3, 4), whole(2, 1, 3, 2), real(1, 3, 2),
          shapes=((1, 3, 4),)), {0: 0}),
    (case("mse_loss", real(4, 3), real(4, 3), reduction="mean", shapes=((),)), {0: 0, 1: 0}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "dims"), SUMMED, ids=lambda v: v[0] if isinstance(v, tuple) else ""
)
def test_the_parts_of_a_sum_add_up(given: Case, dims: dict[int, int]) -> None:
    kind, attrs, inputs, shapes, _ = given
    if shapes is None:
        tensors = [torch.tensor(own) for own in inputs]
        shapes = tuple(tuple(own.shape) for own in meaning(kind, attrs, None, None)(tensors))
    size = inputs[0].shape[dims[0]]
    total = np.zeros(shapes[0])
    for part in range(2):
        kept = slice(part * size // 2, (part + 1) * size // 2)
        own = [array.copy() for array in inputs]
        for position, dim in dims.items():
            zeroed = np.zeros_like(inputs[position])
            place = (slice(None),) * dim + (kept,)
            zeroed[place] = inputs[position][place]
            own[position] = zeroed
        total += KERNELS[kind].forward(KernelCall(kind, attrs, tuple(own), shapes))[0]
    full = KERNELS[kind].forward(KernelCall(kind, attrs, inputs, shapes))[0]
    np.testing.assert_allclose(total, full, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("given", CASES, ids=named)
def test_where_nothing_is_there_nothing_comes_back(given: Case) -> None:
    """On a device without any part of an op, all is zero; no warning, no not-a-number."""
    kind, attrs, inputs, shapes, by = given
    tensors = [torch.tensor(own) for own in inputs]
    made = meaning(kind, attrs, shapes, by)(tensors)
    call = KernelCall(
        kind,
        attrs,
        tuple(np.zeros_like(own) for own in inputs),
        tuple(tuple(own.shape) for own in made),
    )
    outputs = KERNELS[kind].forward(call)
    sent = tuple(np.zeros(own.shape) if own.dtype == np.float64 else None for own in outputs)
    for gradient in KERNELS[kind].backward(call, outputs, sent):
        assert gradient is None or not gradient.any()


# experts


def dispatch(x: Array, choices: int, experts: int) -> Array:
    """Round robin by hand: one (token, choice) after the other."""
    batch, length, hidden = x.shape
    slots = length * choices // experts
    made = np.zeros((experts, batch, slots, hidden))
    for token in range(length):
        for choice in range(choices):
            place = token * choices + choice
            if place // experts < slots:
                made[place % experts, :, place // experts] = x[:, token]
    return made


@pytest.mark.parametrize(("length", "choices", "experts"), [(8, 2, 4), (6, 2, 8), (5, 3, 4)])
def test_tokens_go_round_all_experts(length: int, choices: int, experts: int) -> None:
    x, index = real(2, length, 3), whole(experts, 2, length, choices)
    wanted = dispatch(x, choices, experts)
    call = KernelCall("moe_dispatch", {}, (x, index), (wanted.shape,))
    (made,) = KERNELS["moe_dispatch"].forward(call)
    np.testing.assert_array_equal(made, wanted)
    sent = real(*wanted.shape)
    received, none = KERNELS["moe_dispatch"].backward(call, (made,), (sent,))
    assert none is None
    assert received is not None
    # <J x, sent> = <x, J' sent>, for a J that is linear
    np.testing.assert_allclose((made * sent).sum(), (x * received).sum())


def test_what_experts_give_comes_back_weighted() -> None:
    length, choices, experts = 6, 2, 5
    y, index = real(experts, 2, 2, 3), whole(experts, 2, length, choices)
    weight = real(2, length, choices)
    wanted = np.zeros((2, length, 3))
    # 6 tokens and 2 slots: two blocks of 3 tokens and 1 slot of every expert
    for token in range(length):
        for choice in range(choices):
            place = token % 3 * choices + choice
            if place < experts:  # the last choice of a block finds no slot
                row = y[place, :, token // 3]
                wanted[:, token] += row * weight[:, token, choice, None]
    call = KernelCall("moe_combine", {}, (y, index, weight), (wanted.shape,))
    (made,) = KERNELS["moe_combine"].forward(call)
    np.testing.assert_allclose(made, wanted)
    sent = real(*wanted.shape)
    rows, none, weights = KERNELS["moe_combine"].backward(call, (made,), (sent,))
    assert none is None
    assert rows is not None
    assert weights is not None
    # bilinear: both inner products are <made, sent>
    np.testing.assert_allclose((made * sent).sum(), (y * rows).sum())
    np.testing.assert_allclose((made * sent).sum(), (weight * weights).sum())


def test_a_part_of_the_sequence_fills_the_same_part_of_the_slots() -> None:
    x = real(1, 8, 3)
    second = np.where(np.arange(8)[:, None] >= 4, x, 0.0)
    made = dispatch(x, 2, 4)
    call = KernelCall("moe_dispatch", {}, (second, whole(4, 1, 8, 2)), (made.shape,))
    (own,) = KERNELS["moe_dispatch"].forward(call)
    np.testing.assert_array_equal(own[:, :, 2:], made[:, :, 2:])
    assert not own[:, :, :2].any()


# losses on some of the rows


def test_the_shares_of_a_mean_loss_add_up() -> None:
    logits, labels = real(6, 4), np.array([0, 3, -100, 2, 1, -100])
    whole_call = KernelCall("cross_entropy", CROSS, (logits, labels), ((),))
    (wanted,) = KERNELS["cross_entropy"].forward(whole_call)
    wanted_gradient = KERNELS["cross_entropy"].backward(whole_call, (wanted,), (np.ones(()),))[0]
    total, gradient = np.zeros(()), np.zeros((6, 4))
    for rows in (slice(0, 2), slice(2, 6)):
        own = np.full(6, ignored_label(whole_call))
        own[rows] = labels[rows]
        call = KernelCall("cross_entropy", CROSS, (logits, own), ((),), denominator=4.0)
        (part,) = KERNELS["cross_entropy"].forward(call)
        received = KERNELS["cross_entropy"].backward(call, (part,), (np.ones(()),))[0]
        assert received is not None
        total, gradient = total + part, gradient + received
    assert wanted_gradient is not None
    np.testing.assert_allclose(total, wanted)
    np.testing.assert_allclose(gradient, wanted_gradient)


# attrs of a larger graph

SCALED_DOWN = [
    # the second half of 128 is the second half of 8
    (case("slice", np.arange(8.0), dim=0, start=64, end=128, step=1, shapes=((4,),)), [4, 5, 6, 7]),
    # the third sixteenth is not there: the first part is as good
    (case("slice", np.arange(3.0), dim=0, start=64, end=96, step=1, shapes=((2,),)), [0, 1]),
    (case("slice", np.arange(4), dim=0, start=1, end="seq+1", step=1, shapes=((3,),)), [1, 2, 3]),
    (case("arange", start=0, end="seq", step=1, shapes=((3,),)), [0, 1, 2]),
    (case("pad", np.arange(2), pads=[[0, 8]], value=-1, shapes=((3,),)), [0, 1, -1]),
    (case("index_select", np.arange(3.0), np.array([1, 7]), dim=0, shapes=((2,),)), [1, 1]),
    (case("full", value="-inf", shapes=((1,),)), [-np.inf]),
    (case("full", value=0, dtype="float32", shapes=((1,),)), [0.0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "wanted"), SCALED_DOWN, ids=lambda v: named(v) if isinstance(v, tuple) else ""
)
def test_sizes_in_attrs_may_be_those_of_a_larger_graph(given: Case, wanted: list[float]) -> None:
    kind, attrs, inputs, shapes, _ = given
    assert shapes is not None
    (made,) = KERNELS[kind].forward(KernelCall(kind, attrs, inputs, shapes))
    np.testing.assert_array_equal(made, wanted)


def test_a_split_follows_its_outputs() -> None:
    attrs = {"dim": 0, "sizes": [1024, 512]}
    made = KERNELS["split"].forward(KernelCall("split", attrs, (np.arange(6),), ((4,), (2,))))
    assert [own.tolist() for own in made] == [[0, 1, 2, 3], [4, 5]]


def test_groups_that_do_not_fit_give_way() -> None:
    x, ones = real(2, 6, 4), np.ones(6)
    (made,) = KERNELS["group_norm"].forward(
        KernelCall("group_norm", {"groups": 32}, (x, ones, ones), (x.shape,))
    )
    wanted = F.group_norm(torch.tensor(x), 2, torch.ones(6).double(), torch.ones(6).double())
    np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-12)


def test_windows_fit_any_input() -> None:
    """A window larger than what is left of the input reads what is there."""
    x = real(1, 2, 3, 3)
    call = KernelCall("max_pool", {"kernel": [7, 7], "stride": [7, 7]}, (x,), ((1, 2, 1, 1),))
    (made,) = KERNELS["max_pool"].forward(call)
    np.testing.assert_array_equal(made, x.max(axis=(2, 3), keepdims=True))


def test_a_row_that_may_see_nothing_gives_zeros() -> None:
    mask = np.array([[True, False], [False, False]])
    q = real(1, 1, 2, 3)
    call = KernelCall("attention", {"causal": False}, (q, q, q, mask), (q.shape,))
    (made,) = KERNELS["attention"].forward(call)
    np.testing.assert_allclose(made[0, 0], [q[0, 0, 0], np.zeros(3)])


def test_an_unknown_mode_is_named() -> None:
    call = KernelCall("upsample", {"mode": "area"}, (real(1, 1, 2),), ((1, 1, 4),))
    with pytest.raises(NotExecutable, match="not verifiable: upsample: mode 'area'"):
        KERNELS["upsample"].forward(call)


def test_functions_are_continued_where_they_are_not_real() -> None:
    """Made-up values may be negative; what is not a number would hide a difference."""
    x = np.array([-4.0])
    for kind, wanted, slope in (
        ("log", np.log(4), -0.25),
        ("sqrt", 2, -0.25),
        ("rsqrt", 0.5, 0.0625),
    ):
        call = KernelCall(kind, {}, (x,), ((1,),))
        outputs = KERNELS[kind].forward(call)
        np.testing.assert_allclose(outputs[0], wanted)
        np.testing.assert_allclose(KERNELS[kind].backward(call, outputs, (np.ones(1),))[0], slope)


def test_a_product_with_zero_is_zero_whatever_the_other_is() -> None:
    x, y = np.array([np.nan, np.inf, 2.0]), np.zeros(3)
    call = KernelCall("mul_no_nan", {}, (x, y), ((3,),))
    np.testing.assert_array_equal(KERNELS["mul_no_nan"].forward(call)[0], y)


# numbers from nothing


def drawn(kind: str, *inputs: Array, **attrs: float) -> Array:
    return KERNELS[kind].forward(KernelCall(kind, attrs, inputs, ((400, 50),)))[0]


def test_random_numbers_are_distributed_as_they_should() -> None:
    """Mean and variance of 20,000 draws, within five standard errors."""
    alpha, beta = np.full(50, 3.0), np.full(50, 2.0)
    for made, mean, variance in (
        (drawn("random_uniform", low=-1, high=3), 1.0, 16 / 12),
        (drawn("random_normal"), 0.0, 1.0),
        (drawn("random_gamma", alpha, beta), 1.5, 0.75),
    ):
        assert abs(made.mean() - mean) < 5 * np.sqrt(variance / made.size)
        assert abs(made.var() - variance) < 0.05 * variance


def test_random_numbers_are_the_same_on_every_device_and_others_by_another_seed() -> None:
    np.testing.assert_array_equal(drawn("random_normal"), drawn("random_normal"))
    assert (drawn("random_normal") != drawn("random_normal", seed=1)).all()
