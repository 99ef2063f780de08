"""What policies do again, and that what the backward pass needs is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.catalogue import EXAMPLES
from meshwright.schema import Graph, Setup
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.recomputed_ops import RecomputedOps
from meshwright_solver.problem.values import Values, find_values
from meshwright_solver.stage.recompute import remade
from meshwright_solver.stage.recompute.blocks import blocks
from tests.solver.small_graphs import problem, topology
from tests.solver.stage.recompute.layers import layered, under_autocast


def built(graph: Graph, policy: str, count: int | None = None) -> tuple[Problem, RecomputedOps]:
    whole = problem(graph, topology(2), Setup(microbatches=1))
    return whole, remade(whole, find_values(whole), policy, count)  # type: ignore[arg-type]  # a policy


def again(graph: Graph, policy: str, layer: int) -> set[str]:
    """What is done again in a layer, without its number."""
    _, found = built(graph, policy)
    return {op.split(".")[1] for op in found.again if op.startswith(f"{layer}.")}


def saved_bytes(whole: Problem, values: Values) -> int:
    return sum(
        whole.tensors[value.root].bytes
        for value in values.values
        if value.kept.wanted and not (value.is_remade or value.is_free or value.is_parameter)
    )


def test_layers_are_blocks_from_norm_to_sum() -> None:
    whole = problem(layered(4), topology(2), Setup(microbatches=1))
    names = [[whole.ops[p].name for p in block] for block in blocks(whole, find_values(whole))]
    assert [own[0] for own in names] == [f"{k}.norm" for k in range(4)]
    assert [own[-1] for own in names] == [f"{k}.out" for k in range(4)]


def test_policies_do_again_what_they_say() -> None:
    graph = layered(4)
    assert again(graph, "none", 1) == set()
    assert again(graph, "selective", 1) == {"softmax", "scores"}
    # the sum needs what is there anyway: the query, of which context is made, and the input
    assert again(graph, "cheap", 1) == {"norm", "scores", "softmax", "context", "add", "gelu"}
    # the last product and the sum behind it are needed by no gradient of the block
    assert again(graph, "full", 1) == {
        "norm", "query", "scores", "softmax", "context", "add", "up", "gelu"
    }  # fmt: skip


def test_stacks_that_run_whole_blocks_again_repeat_the_last_product_too() -> None:
    """Not the sum behind it: the next block reads that, and keeps it."""
    graph = layered(4)
    for stack, more in (("megatron-core", {"down"}), ("torchtitan", set())):
        whole = problem(graph, topology(2), Setup(microbatches=1, stack=stack))  # type: ignore[arg-type]  # a stack
        found = remade(whole, find_values(whole), "full")
        for layer in range(3):
            own = {op.split(".")[1] for op in found.again if op.startswith(f"{layer}.")}
            assert own == again(graph, "full", layer) | more
        assert remade(whole, find_values(whole), "cheap") == built(graph, "cheap")[1]


def test_products_with_casts_of_parameters_make_blocks_too() -> None:
    """Autocast casts every parameter that a product reads."""
    graph = under_autocast(layered(4))
    casts = {"q", "up"}  # of parameters, named `.cast` behind them; that of `down` is needed again
    assert again(graph, "full", 1) - casts - {"down"} == {
        "norm", "query", "scores", "softmax", "context", "add", "up", "gelu"
    } - casts  # fmt: skip
    assert again(graph, "cheap", 1) & {"query"} == set()


def test_full_saves_what_goes_into_blocks_alone() -> None:
    whole, found = built(layered(4), "full")
    values = find_values(replace(whole, remade=found))
    kept = {v.root for v in values.values if v.kept.wanted and not v.is_remade}
    kept = {name for name in kept if not whole.tensors[name].is_free}
    inputs = {"into:out", *(f"{k}.out:out" for k in range(3))}
    assert {name for name in kept if whole.tensors[name].tensor.role == "activation"} == inputs


def test_only_the_first_blocks() -> None:
    _, found = built(layered(4), "full", 2)
    assert {op.split(".")[0] for op in found.again} == {"0", "1"}
    assert len({*found.segment_of.values()}) == 2


def test_inference_does_nothing_again() -> None:
    whole = problem(layered(4), topology(2), Setup(phase="inference"))
    assert not remade(whole, find_values(whole), "full")


@pytest.mark.parametrize("name", [example.name for example in EXAMPLES])
def test_what_the_backward_pass_needs_is_saved_or_made_again_in_time(name: str) -> None:
    graph = next(example for example in EXAMPLES if example.name == name).load()
    whole = problem(graph, topology(2), Setup(microbatches=1))
    plain = find_values(whole)
    before = saved_bytes(whole, plain)
    for policy in ("selective", "cheap", "full"):
        found = remade(whole, plain, policy)  # type: ignore[arg-type]  # a policy
        values = find_values(replace(whole, remade=found))
        after = saved_bytes(whole, values)
        assert after <= before
        before = after
        for value in values.values:
            if value.is_free or value.producer is None or not value.again:
                continue
            if value.is_remade:
                maker = whole.ops[value.producer[0]].name
                served = {found.segment_of.get(whole.ops[p].name) for p, _ in value.again}
                assert maker in found.again
                assert served == {found.segment_of[maker]}
            # what is done again reads only what is there: every such reader is counted
            readers = {r for r in value.readers if whole.ops[r[0]].name in found.again}
            assert readers <= value.again
