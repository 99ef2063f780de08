"""Who sends: the nearest replica, replicas in turn, and once into every node."""

from __future__ import annotations

from collections import Counter

import pytest

from meshwright.schema import LayoutError, TooLarge
from meshwright.schema.transfer import Piece
from meshwright.transfers.pieces import all_sends
from meshwright.transfers.routes import SLICE_BYTES
from meshwright_solver.layouts.transfers.links import Cluster
from meshwright_solver.layouts.transfers.transfer import transfer
from tests.solver.layouts.transfers.random_moves import topology
from tests.solver.layouts.transfers.small import item, layout, site
from tests.solver.small_graphs import toy_calibration

NODES = Cluster.of(topology((4, 4)), toy_calibration())


def ends(pieces: list[Piece]) -> list[tuple[int, int]]:
    return sorted((piece.source, piece.target) for piece in pieces)


def test_what_is_in_place_is_not_sent() -> None:
    # four devices hold a quarter each; two are to hold a half each
    move = item(layout((8, "a")), site(a=4), layout((8, "b")), site(b=2))
    document = transfer([move], NODES)
    # device 0 has 0-1 and needs 0-3; device 1 has 2-3 and needs 4-7
    assert ends(list(all_sends(document))) == [(1, 0), (2, 1), (3, 1)]
    assert (document.needed_bytes, document.kept_bytes, document.moved_bytes) == (8, 2, 6)


def test_the_same_layout_moves_nothing() -> None:
    move = item(layout((8, "a")), site(a=4), layout((8, "b")), site(b=4))
    document = transfer([move], NODES)
    assert (document.moved_bytes, document.sends, document.ns) == (0, 0, 0)
    assert document.busiest is None


def test_a_replica_in_the_same_node_sends() -> None:
    # halves, each held once in both nodes: device 0 and 4 have the first, 1 and 5 the second
    here = site(r=2, n=2, a=2)  # r: nodes; n: replicas inside
    move = item(layout((8, "a")), here, layout((8, "")), site(b=8))
    pieces = list(all_sends(transfer([move], NODES)))
    assert len(pieces) == 8
    assert all(piece.source // 4 == piece.target // 4 for piece in pieces)


def test_equal_replicas_share_the_requests() -> None:
    # four devices of one node hold all; four of another need a quarter each
    move = item(layout((8, "")), site(a=4), layout((8, "b")), site(4, b=4))
    pieces = list(all_sends(transfer([move], NODES)))
    assert Counter(piece.source for piece in pieces) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_fewer_requests_than_replicas_are_spread() -> None:
    # eight holders in two nodes, two requests: one goes to either node
    move = item(layout((8, "")), site(a=8), layout((8, "b")), site(8, b=2))
    assert {p.source // 4 for p in all_sends(transfer([move], NODES))} == {0, 1}


def test_tensors_alike_go_by_turns() -> None:
    moves = [
        item(layout((8, "")), here, layout((8, "")), there, name=f"layers.{k}.w")
        for here, there in [(site(a=4), site(4, b=1))]
        for k in range(10)
    ]
    document = transfer(moves, NODES)
    assert len(document.tensors) == 1
    pieces = list(all_sends(document))
    by_sender = {piece.source: len(piece.tensors) for piece in pieces}
    assert sorted(by_sender.values()) == [2, 2, 3, 3]
    assert sorted(name for p in pieces for name in p.tensors) == sorted(m.tensor for m in moves)
    sent = {load.first: load.sent_bytes for load in document.loads if load.sent_bytes}
    assert sum(sent.values()) <= 80
    assert max(sent.values()) == 24


def test_a_box_comes_into_a_node_once() -> None:
    size = 4 * SLICE_BYTES
    move = item(layout((size, "")), site(a=1), layout((size, "")), site(4, b=4))
    document = transfer([move], NODES)
    first, second = ([p for p in all_sends(document) if p.wave == wave] for wave in (1, 2))
    # a quarter to each device of the node, which passes it on to the three others
    assert sorted(piece.target for piece in first) == [4, 5, 6, 7]
    assert {piece.source for piece in first} == {0}
    assert sum(piece.bytes for piece in first) == size
    assert len(second) == 12
    assert all(piece.source // 4 == piece.target // 4 == 1 for piece in second)
    assert document.moved_bytes == 4 * size


def test_what_is_small_is_not_sliced() -> None:
    move = item(layout((8, "")), site(a=1), layout((8, "")), site(4, b=4))
    pieces = list(all_sends(transfer([move], NODES)))
    assert sorted(piece.wave for piece in pieces) == [1, 2, 2, 2]
    assert {piece.bytes for piece in pieces} == {8}


def test_a_scalar_goes_to_every_device() -> None:
    document = transfer([item(layout(), site(a=1), layout(), site(2, b=3))], NODES)
    assert document.moved_bytes == 3
    assert {piece.target for piece in all_sends(document)} == {2, 3, 4}


def test_tensors_of_other_shapes_are_refused_by_name() -> None:
    move = item(layout((8, "a")), site(a=4), layout((9, "")), site(b=4), name="w")
    with pytest.raises(LayoutError, match=r"tensor 'w': the source has the shape \[8\]"):
        transfer([move], NODES)


def test_more_boxes_than_time_allows_are_refused() -> None:
    many = Cluster.of(topology((2**15, 4)), toy_calibration())
    move = item(layout((2**15, "a")), site(a=2**15), layout((2**15, "")), site(b=2**15))
    with pytest.raises(TooLarge, match="a tensor has 32,768 blocks and 32,768 target devices"):
        transfer([move], many)
