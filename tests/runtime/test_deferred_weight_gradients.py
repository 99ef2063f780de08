"""Backward passes in two: first gradients of activations, then those of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef

from meshwright.runtime.torch.deferred_weight_gradients import DeferredWeightGradients
from meshwright.runtime.torch.recompute import RecomputedTensors
from meshwright.runtime.torch.redistribute import parameter_read

T = torch.Tensor


def random(*shape: int) -> T:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def product(given: Sequence[T]) -> Sequence[T]:
    return [F.linear(given[0], given[1])]


def test_gradients_of_parameters_wait_until_they_are_asked_for() -> None:
    x, weight = random(4, 3), random(5, 3)
    wanted = torch.autograd.grad(product([x, weight])[0].pow(2).sum(), [x, weight])
    weights = DeferredWeightGradients()
    (made,) = weights.run(product, [x, weight], {1: "weight"})
    made.pow(2).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, wanted[0])
    assert weight.grad is None
    weights.give()
    assert torch.equal(weight.grad, wanted[1])


def test_what_other_ops_saved_goes_with_the_first_pass() -> None:
    x, weight = random(4, 3), random(5, 3)
    weights = DeferredWeightGradients()
    (made,) = weights.run(product, [x, weight], {1: "weight"})
    storage = StorageWeakRef(made.untyped_storage())
    total = F.gelu(made).sum()
    del made
    assert not storage.expired()
    total.backward()
    assert storage.expired()
    weights.give()
    assert weight.grad is not None


def test_an_op_that_reads_no_activation_has_both_passes() -> None:
    table, ids = random(6, 3), torch.tensor([1, 4, 1])
    weights = DeferredWeightGradients()
    (made,) = weights.run(lambda given: [F.embedding(*given)], [ids, table], {1: "table"})
    made.sum().backward()
    assert table.grad is None
    weights.give()
    assert table.grad is not None
    assert table.grad.sum(1).tolist() == [0, 6, 0, 0, 3, 0]


def test_a_parameter_that_is_read_twice_is_handed_over_once() -> None:
    x, weight = random(4, 3), random(3, 3)
    taken: list[T] = []
    read = parameter_read(weight, lambda own: own.clone(), taken.append)
    weights = DeferredWeightGradients()
    made = x
    for _ in range(2):
        (made,) = weights.run(product, [made, read], {1: "weight"})
    made.sum().backward()
    weights.give()
    (wanted,) = torch.autograd.grad(F.linear(F.linear(x, weight), weight).sum(), [weight])
    assert len(taken) == 1
    torch.testing.assert_close(taken[0], wanted, rtol=0, atol=1e-14)


def test_an_op_that_is_done_again_is_run_once_more_for_both_passes() -> None:
    x, weight = random(4, 3), random(3)
    runs = 0

    def op(given: Sequence[T]) -> Sequence[T]:
        nonlocal runs
        runs += 1
        return [given[0].exp() * given[1]]

    weights, again = DeferredWeightGradients(), RecomputedTensors([weight], "twice")
    with again.hooks():
        run = partial(weights.run, op, read={1: "weight"})
        (made,) = again.run(["made"], [x, weight], run)
        again.let_go("made")
        made.sum().backward()
    assert again.kept_bytes == x.untyped_storage().nbytes()
    assert runs == 2
    weights.give()
    assert runs == 2
    assert x.grad is not None
    assert weight.grad is not None
    assert torch.equal(x.grad, x.detach().exp() * weight.detach())
    torch.testing.assert_close(weight.grad, x.detach().exp().sum(0), rtol=0, atol=1e-14)
