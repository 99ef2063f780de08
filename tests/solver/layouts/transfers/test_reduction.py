"""Partial sources are reduced where they are, partial targets filled."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from meshwright.schema import LayoutError, LayoutPair, Step
from meshwright.transfers.pieces import all_sends, device_transfer
from meshwright_solver.layouts.transfers.links import Cluster
from meshwright_solver.layouts.transfers.transfer import between_stages, transfer
from tests.solver.layouts.transfers.random_moves import Case, held, random_case, topology
from tests.solver.layouts.transfers.small import item, layout, site
from tests.solver.layouts.transfers.test_transfer import carry_out
from tests.solver.small_graphs import toy_calibration

NODES = Cluster.of(topology((4, 4)), toy_calibration())


def test_the_reduction_leaves_what_is_sent() -> None:
    kinds = set()
    reduced = 0
    for seed in range(150):
        case = random_case(seed, partial=True)
        document = transfer(case.items, case.cluster)
        if case.item.source.partial:
            (step,) = document.tensors[0].reduction
            assert not step.to.partial
            executed(case, step)
            kinds.add(step.kind)
            reduced += 1
        carry_out(case, document)
    assert reduced > 50
    assert kinds == {"reduce_scatter", "all_reduce"}


def executed(case: Case, step: Step) -> None:
    """Reduces random contributions over the step's groups; every rank has its part of the sum."""
    source, mesh = case.item.source, case.item.source_site.mesh
    reduce = np.maximum.reduce if "max" in source.partial.values() else np.add.reduce
    random = np.random.default_rng(1)
    contributions = random.standard_normal((mesh.size(tuple(source.partial)), prod(source.shape)))
    truth = reduce(contributions, axis=0)
    before, after = held(source, mesh), held(step.to, mesh)
    for group in mesh.groups(step.axes):
        assert len({before[rank].tobytes() for rank in group}) == 1
        found = np.full(len(truth), np.nan)
        inside = before[group[0]]
        found[inside] = reduce([contributions[k][inside] for k in range(len(group))], axis=0)
        for rank in group:
            np.testing.assert_allclose(found[after[rank]], truth[after[rank]])


def test_a_target_that_is_split_is_sent_scattered_sums() -> None:
    move = item(layout((64, ""), partial={"a": "sum"}), site(a=4), layout((64, "b")), site(4, b=4))
    (line,) = transfer([move], NODES).tensors
    assert [step.kind for step in line.reduction] == ["reduce_scatter"]
    assert line.reduction[0].axes == ("a",)


def test_what_does_not_divide_is_all_reduced() -> None:
    move = item(layout((7, ""), partial={"a": "max"}), site(a=4), layout((7, "")), site(4, b=4))
    (line,) = transfer([move], NODES).tensors
    assert [step.kind for step in line.reduction] == ["all_reduce"]


def test_sums_of_maxima_are_refused_by_name() -> None:
    both = layout((8, ""), partial={"a": "sum", "c": "max"})
    move = item(both, site(a=2, c=2), layout((8, "b")), site(4, b=4), name="scores")
    with pytest.raises(LayoutError, match=r"tensor 'scores': .* by sum and by maximum"):
        transfer([move], NODES)


def test_a_target_that_is_partial_is_sent_once_and_filled() -> None:
    move = item(layout((8, "a")), site(a=2), layout((8, ""), partial={"b": "sum"}), site(4, b=4))
    document = transfer([move], NODES)
    assert document.moved_bytes == 8
    assert {piece.target for piece in all_sends(document)} == {4}
    assert device_transfer(document, 4).fills == ()
    (fill,) = device_transfer(document, 5).fills
    assert (fill.tensors, fill.value) == (("t",), "zero")


def test_a_value_goes_forward_and_its_gradient_back() -> None:
    # the producer splits value and gradient (S), the reader has the value whole and its gradient
    # partial (V): forward every reader gets all of it, backward the gradient is reduced first
    pair = LayoutPair(value=layout((64, "a")), gradient=layout((64, "a")))
    read = LayoutPair(value=layout((64, "")), gradient=layout((64, ""), partial={"b": "sum"}))
    forward, backward = between_stages(
        "h", (pair, site(a=4)), (read, site(4, b=4)), NODES, value_bytes=2, gradient_bytes=4
    )
    assert forward.moved_bytes == 4 * 64 * 2
    assert backward is not None
    (line,) = backward.tensors
    assert (line.state, line.reduction[0].kind) == ("gradient", "reduce_scatter")
    assert backward.moved_bytes == 64 * 4
    assert {piece.source for piece in all_sends(backward)} == {4, 5, 6, 7}


def test_of_a_gradient_that_all_readers_hold_one_copy_goes_back() -> None:
    # the producer's value is partial (P): the gradient is whole on each of its devices
    pair = LayoutPair(value=layout((8, ""), partial={"a": "sum"}), gradient=layout((8, "")))
    read = LayoutPair(value=layout((8, "")), gradient=layout((8, "")))
    forward, backward = between_stages(
        "h", (pair, site(a=2)), (read, site(4, b=2)), NODES, value_bytes=1, gradient_bytes=1
    )
    assert forward.tensors[0].reduction
    assert backward is not None
    assert not backward.tensors[0].reduction
    assert backward.moved_bytes == 2 * 8
    alone = LayoutPair(value=layout((8, "")))
    without = between_stages(
        "x", (alone, site(a=2)), (alone, site(4, b=2)), NODES, value_bytes=1, gradient_bytes=1
    )
    assert without[1] is None
