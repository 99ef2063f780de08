"""What is said of order, held against kernels: permuted inputs make permuted outputs, or do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from meshwright.schema.notation import Factor, Notation, Term
from meshwright_solver.rules import KINDS
from meshwright_solver.rules.index_order import NUMBERED, PLACED, ROOM, STATISTICS, in_any_order
from meshwright_solver.verification.execution.kernels import KERNELS, Array, KernelCall
from tests.solver.verification.execution.all_cases import ALL
from tests.solver.verification.execution.kernel_cases import Case, named
from tests.solver.verification.execution.test_rules_executed import prepared, rule_of

WITH_RULES = [pytest.param(own, id=named(own)) for own in ALL if own[0] in KINDS]


def permuted(
    array: Array, term: Term, sizes: Mapping[Factor, int], factor: Factor, order: Array
) -> Array:
    """An array with the index of a factor in another order, in every segment that has it."""
    for d, dim in enumerate(term):
        if not any(factor in product for product in dim):
            continue
        ends = np.cumsum([prod(sizes[f] for f in product) for product in dim])[:-1]
        pieces = []
        for product, piece in zip(dim, np.split(array, ends, axis=d), strict=True):
            if factor in product:
                shape = [*piece.shape[:d], *(sizes[f] for f in product), *piece.shape[d + 1 :]]
                turned = np.take(piece.reshape(shape), order, axis=d + product.index(factor))
                pieces.append(turned.reshape(piece.shape))
            else:
                pieces.append(piece)
        array = np.concatenate(pieces, axis=d)
    return array


def cares(call: KernelCall, factor: Factor, order: Sequence[int]) -> bool:
    """Whether outputs or gradients are others than the permuted ones."""
    rule, sizes = rule_of(call)
    kernel, turn = KERNELS[call.kind], np.array(order)
    sides = rule.parsed.inputs if call.inputs else (), rule.parsed.outputs

    def turned(arrays: Sequence[Array | None], side: int) -> list[Array | None]:
        pairs = zip(arrays, sides[side], strict=True)
        return [a if a is None else permuted(a, term, sizes, factor, turn) for a, term in pairs]

    with np.errstate(all="ignore"):
        made = kernel.forward(call)
        other = replace(call, inputs=tuple(turned(call.inputs, 0)))
        random = np.random.default_rng(5)
        sent = [random.standard_normal(a.shape) if a.dtype == float else None for a in made]
        made_other = kernel.forward(other)
        received = kernel.backward(call, made, tuple(sent))
        received_other = kernel.backward(other, made_other, tuple(turned(sent, 1)))
    pairs = [*zip(turned(made, 1), made_other, strict=True)]
    pairs += [*zip(turned(received, 0), received_other, strict=True)]
    return not all(
        a is b or np.allclose(a, b, rtol=1e-9, atol=1e-11, equal_nan=True) for a, b in pairs
    )


def chunked(kind: str, rule: Notation) -> frozenset[Factor]:
    """What only equal chunks may change places of; executed in test_sequence_order.py."""
    return frozenset(rule.follows.values()) if kind in ROOM else frozenset()


def orders(size: int) -> list[list[int]]:
    back = list(range(size))[::-1]
    return [back, [*range(1, size), 0]]


@pytest.mark.parametrize("given", WITH_RULES)
def test_what_may_run_in_any_order_does(given: Case) -> None:
    call = prepared(given)
    rule, sizes = rule_of(call)
    if call.kind == "attention" and call.attrs.get("causal"):
        # the positions of a causal mask and its limits are the true ones
        attrs = {k: v for k, v in call.attrs.items() if k not in ("window", "chunk")}
        call = replace(call, attrs={**attrs, "causal": False})
    for factor in in_any_order(call.kind, rule.parsed, call.attrs) - chunked(
        call.kind, rule.parsed
    ):
        for order in orders(sizes[factor]):
            assert not cares(call, factor, order), factor


def test_a_causal_mask_goes_by_position() -> None:
    call = prepared(next(own for own in ALL if own[0] == "attention" and own[1].get("causal")))
    _, sizes = rule_of(call)
    for factor in (Factor("s"), Factor("t")):
        assert cares(call, factor, orders(sizes[factor])[0])


def test_nothing_is_left_out_that_could_run_in_any_order() -> None:
    """Planted: a free or summed factor for which the rule says no. Each kind that is listed has one
    that cares."""
    told = {kind: False for kind in (*PLACED, *NUMBERED) if kind in KINDS}
    for own in ALL:
        if own[0] in told and own[2]:
            call = prepared(own)
            rule, sizes = rule_of(call)
            for factor in set(rule.parsed.factors) - in_any_order(
                call.kind, rule.parsed, call.attrs
            ):
                told[own[0]] |= any(_fails(call, factor, order) for order in orders(sizes[factor]))
    # nothing is read, or nobody knows what is computed
    silent = {"arange", "random_uniform", "get_next", "custom", "stand_alone"}
    assert {kind for kind, cared in told.items() if not cared} == silent


def _fails(call: KernelCall, factor: Factor, order: Sequence[int]) -> bool:
    try:
        return cares(call, factor, order)
    except (IndexError, ValueError):
        return True


def test_statistics_are_of_kinds_that_have_them() -> None:
    assert KINDS.keys() >= STATISTICS
    assert KINDS.keys() >= PLACED
