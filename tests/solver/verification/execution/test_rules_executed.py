"""Rules held against kernels: what a rule lets be sharded can be computed part by part.

For every case and every factor that its rule leaves free, the op is run on two unequal parts of the
factor, cut in two ways, the rest of its inputs zero. Outputs and gradients that have the factor are
equal part by part to those of the whole op; those that have not are partial and add up. Factors
that a rule keeps whole, let go, do not pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest
import torch

from meshwright.schema import ShardingRule
from meshwright.schema.notation import Factor, Notation, Segments, Term
from meshwright_solver.rules import KINDS
from meshwright_solver.rules.op_knowledge import RuleInputs
from meshwright_solver.verification.execution.kernels import (
    KERNELS,
    Array,
    KernelCall,
    ignored_label,
)
from tests.solver.verification.execution.all_cases import ALL, EXPERTS, RANDOM
from tests.solver.verification.execution.kernel_cases import Case, meaning, named, real

WITH_RULES = [pytest.param(own, id=named(own)) for own in ALL if own[0] in KINDS]
APART = {kind for kind, *_ in (*EXPERTS, *RANDOM)}


def prepared(given: Case) -> KernelCall:
    kind, attrs, inputs, shapes, by = given
    if kind not in APART:
        made = meaning(kind, attrs, shapes, by)([torch.tensor(own) for own in inputs])
        shapes = tuple(tuple(own.shape) for own in made)
    assert shapes is not None
    return KernelCall(kind, attrs, inputs, shapes)


def rule_of(call: KernelCall) -> tuple[ShardingRule, dict[Factor, int]]:
    """The rule of a call and the sizes of its factors."""
    shapes = [own.shape for own in call.inputs]
    rule = KINDS[call.kind](RuleInputs(shapes, call.output_shapes, call.attrs)).rule
    return rule, rule.bind(shapes, call.output_shapes)


def along(dim: Segments, sizes: Mapping[Factor, int], factor: Factor, kept: Array) -> Array:
    """Which places of a dim belong to the kept values of a factor."""
    pieces = []
    for product in dim:
        own = np.ones([sizes[f] for f in product], dtype=np.bool_)
        if factor in product:
            place = product.index(factor)
            own = own & kept.reshape(-1, *[1] * (len(product) - place - 1))
        pieces.append(own.reshape(-1))
    return np.concatenate(pieces)


def mask(
    term: Term, shape: Sequence[int], sizes: Mapping[Factor, int], kept: Mapping[Factor, Array]
) -> Array:
    """Which elements of a tensor belong to the kept values of some factors."""
    made = np.ones(shape, dtype=np.bool_)
    for d, dim in enumerate(term):
        for factor, values in kept.items():
            if prod(shape) and any(factor in product for product in dim):
                own = along(dim, sizes, factor, values)
                made &= own.reshape(-1, *[1] * (len(shape) - d - 1))
    return made


def has(term: Term, factors: Sequence[Factor]) -> bool:
    return any(f in product for dim in term for product in dim for f in factors)


def part_of(call: KernelCall, masks: Sequence[Array], *, adds_bias: bool) -> KernelCall:
    inputs = [
        np.where(kept, own, np.zeros_like(own))
        for own, kept in zip(call.inputs, masks, strict=True)
    ]
    if call.kind in ("linear", "conv", "conv_transpose") and len(inputs) > 2 and not adds_bias:
        inputs[2] = np.zeros_like(inputs[2])
    if call.kind != "cross_entropy":
        return replace(call, inputs=tuple(inputs))
    ignored = ignored_label(call)
    inputs[1] = np.where(masks[1], call.inputs[1], ignored)
    return replace(call, inputs=tuple(inputs), denominator=float((call.inputs[1] != ignored).sum()))


def close(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def cuts(size: int) -> list[int]:
    """Where a factor is cut in two: early, and late where there is room."""
    return sorted({max(1, size // 3), size - max(1, size // 3)})


def halves(
    parsed: Notation, sizes: Mapping[Factor, int], factor: Factor, cut: int
) -> Iterator[dict[Factor, Array]]:
    """Which values of a factor, and of those that follow it, the first and second part have."""
    group = [factor, *(f for f, leader in parsed.follows.items() if leader == factor)]
    for first in (True, False):
        yield {f: (np.arange(sizes[f]) * sizes[factor] < cut * sizes[f]) == first for f in group}


@pytest.mark.parametrize("given", WITH_RULES)
def test_parts_of_a_free_factor_can_be_computed_apart(given: Case) -> None:
    call = prepared(given)
    rule, sizes = rule_of(call)
    parsed = rule.parsed
    closed = parsed.unsharded | parsed.reused | parsed.halo | set(parsed.follows)
    compare(call, parsed, sizes, [factor for factor in parsed.factors if factor not in closed])


# kinds that keep whole what could be sharded: the points of a filter, the choices of a token, the
# two halves of a complex number, and places that do not divide
CAUTIOUS = {
    *("stack", "slice", "reshape", "polar", "gather", "moe_combine", "conv", "conv_transpose"),
}


def marked(kind: str) -> Iterator[tuple[KernelCall, Notation, dict[Factor, int], Factor]]:
    """Every factor that a rule of the kind keeps whole or exchanges statistics over."""
    for given in ALL:
        if given[0] == kind:
            call = prepared(given)
            rule, sizes = rule_of(call)
            for factor in sorted(rule.parsed.unsharded | rule.parsed.reused):
                if sizes[factor] > 1:
                    yield call, rule.parsed, sizes, factor


@pytest.mark.parametrize("kind", sorted({own[0] for own in ALL if own[0] in KINDS}))
def test_what_a_rule_keeps_whole_cannot_be_let_go(kind: str) -> None:
    """Planted wrong rules: one mark left out. Each kind that has marks needs one of them."""
    caught = []
    for call, parsed, sizes, factor in marked(kind):
        try:
            with np.errstate(all="ignore"):
                compare(call, parsed, sizes, [factor])
        except AssertionError:
            caught.append(factor)
    if list(marked(kind)):
        assert bool(caught) == (kind not in CAUTIOUS)


def compare(
    call: KernelCall, parsed: Notation, sizes: Mapping[Factor, int], factors: Sequence[Factor]
) -> None:
    """Part by part along each factor against the whole op."""
    outputs = KERNELS[call.kind].forward(call)
    random = np.random.default_rng(11)
    sent = tuple(
        random.standard_normal(own.shape) if own.dtype == np.float64 else None for own in outputs
    )
    received = KERNELS[call.kind].backward(call, outputs, sent)
    for factor in factors:
        if sizes[factor] > 1:
            for cut in cuts(sizes[factor]):
                compare_parts(call, parsed, sizes, factor, cut, outputs, sent, received)


def compare_parts(
    call: KernelCall,
    parsed: Notation,
    sizes: Mapping[Factor, int],
    factor: Factor,
    cut: int,
    outputs: tuple[Array, ...],
    sent: tuple[Array | None, ...],
    received: tuple[Array | None, ...],
) -> None:
    kernel = KERNELS[call.kind]
    summed = factor in parsed.summed
    partial = [np.zeros(own.shape) for own in outputs]
    partial_gradients = [np.zeros(own.shape) for own in call.inputs]
    for number, kept in enumerate(halves(parsed, sizes, factor, cut)):
        masks = [
            mask(term, own.shape, sizes, kept)
            for term, own in zip(parsed.inputs, call.inputs, strict=False)
        ]
        inside = [
            mask(term, own.shape, sizes, kept)
            for term, own in zip(parsed.outputs, outputs, strict=True)
        ]
        part = part_of(call, masks, adds_bias=number == 0 or not summed)
        made = kernel.forward(part)
        for j, own in enumerate(made):
            if has(parsed.outputs[j], list(kept)):
                close(own[inside[j]], outputs[j][inside[j]])
            else:
                partial[j] = partial[j] + own
        own_sent = tuple(
            None if gradient is None else np.where(there, gradient, 0.0)
            for gradient, there in zip(sent, inside, strict=True)
        )
        for k, gradient in enumerate(kernel.backward(part, made, own_sent)):
            wanted = received[k]
            if gradient is None or wanted is None:
                continue
            if has(parsed.inputs[k], list(kept)):
                close(gradient[masks[k]], wanted[masks[k]])
            else:
                partial_gradients[k] += gradient
    for j, own in enumerate(partial):
        if not has(parsed.outputs[j], list(kept)):
            close(own, outputs[j])
    for k, own in enumerate(partial_gradients):
        wanted = received[k]
        # what is added to a partial sum (a bias) has its whole gradient everywhere
        if wanted is not None and not summed and not has(parsed.inputs[k], list(kept)):
            close(own, wanted)


@pytest.mark.parametrize("given", WITH_RULES)
def test_partial_sums_pass_through_what_is_linear(given: Case) -> None:
    call = prepared(given)
    rule, _ = rule_of(call)
    for group in rule.linear:
        if any(call.inputs[k].dtype != np.float64 for k in group):
            continue
        passes_sums(call, group)


def passes_sums(call: KernelCall, group: Sequence[int]) -> None:
    """The op of two shares of some inputs adds up to the op of their sum."""
    random = np.random.default_rng(11)
    first = [random.standard_normal(own.shape) for own in call.inputs]
    rest = [own - part for own, part in zip(call.inputs, first, strict=True)]
    shares = [
        replace(
            call,
            inputs=tuple(share[k] if k in group else own for k, own in enumerate(call.inputs)),
        )
        for share in (first, rest)
    ]
    one, other = (KERNELS[call.kind].forward(share)[0] for share in shares)
    close(one + other, KERNELS[call.kind].forward(call)[0])


def test_what_is_not_linear_does_not_pass_partial_sums() -> None:
    """Planted wrong rules: a group of inputs in which the op is not linear."""
    for kind, group, inputs in (
        ("relu", (0,), (real(3, 4),)),
        ("div", (1,), (real(3), real(3))),
        ("mul", (0, 1), (real(3), real(3))),
        ("addcmul", (1, 2), (real(3), real(3), real(3))),
        ("unsorted_segment_prod", (0,), (real(3, 2), np.array([0, 1, 1]))),
    ):
        call = prepared(next(own for own in ALL if own[0] == kind))
        call = replace(call, inputs=inputs, output_shapes=(inputs[0].shape,))
        with pytest.raises(AssertionError):
            passes_sums(call, group)
