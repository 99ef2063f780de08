"""What redistributions cost is the least that any sequence of collectives costs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from meshwright_costmodel.collectives import ProtocolRates
from meshwright_costmodel.expert_imbalance import ExpertLoad, group_load
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.layouts.states import StateSpace
from tests.solver.exhaustive_redistribution import cheapest_ns
from tests.solver.redistribution_cases import gradient_lay, links, value_lay

MESHES = [
    ((2,), (4, 6, 3)),
    ((2, 3), (6, 12)),
    ((2, 2), (4, 2, 4)),
    ((3, 3), (9, 3)),
    ((2, 1, 2), (4, 2)),
    ((2, 3, 6), (6, 36)),  # one axis is as long as two others together
    ((2, 2, 2), (8, 8)),
    ((2, 4, 2), (16, 4)),
    ((3, 2, 2), (4, 12)),
    ((2, 2, 2), (4, 2, 2)),
    ((2, 2, 3, 2), (6,)),
    ((2, 3, 2), ()),
]


PROTOCOLS = (
    ProtocolRates(0.0, (500.0, 10.0), (1e8, 1e9), (50.0, 0.0)),
    ProtocolRates(100.0, (2000.0, 200.0), (2e9, 4e9), (3000.0, 0.0), in_switch_bytes_per_s=8e9),
)
BY_KIND = (("all_reduce", 3.0, 0.4), ("all_gather", 0.5, 2.0), ("reduce_scatter", 2.0, 3.0))
SOURCES = 64  # states of a space, from and to which all ways are compared


@pytest.mark.rotating
# uneven parts are priced as large messages are: not by the protocol that suits the rest of them
@pytest.mark.parametrize(
    ("imbalance", "protocols", "by_kind"),
    [(1.0, (), ()), (1.7, (), ()), (1.0, PROTOCOLS, ()), (1.0, PROTOCOLS, BY_KIND)],
    ids=str,
)
@pytest.mark.parametrize(("axis_sizes", "slot_sizes"), MESHES)
def test_no_sequence_of_collectives_is_cheaper(
    axis_sizes, slot_sizes, imbalance, protocols, by_kind
):
    for seed in range(2):
        random = np.random.default_rng([seed, *axis_sizes, *slot_sizes])
        levels = tuple(sorted(random.integers(0, 2, len(axis_sizes)).tolist()))
        bytes_ = int(random.choice([0, 1, 1000, 10**6, 10**9])) * int(np.prod(slot_sizes))
        experts = slot_sizes[0] if slot_sizes else 1
        load = ExpertLoad((0,), experts, imbalance) if imbalance > 1 else None
        space = StateSpace(slot_sizes, axis_sizes, bytes_, has_gradient=True, load=load)
        between = replace(links(random), protocols=protocols, by_kind=by_kind)
        moves = Redistributions(space, levels, between)
        states = random.permutation(len(space.states))[:SOURCES]
        value = [value_lay(moves, int(state)) for state in states]
        gradient = [gradient_lay(moves, int(state)) for state in states]
        known = {
            source: cheapest_ns(
                axis_sizes,
                slot_sizes,
                source,
                bytes_,
                levels,
                moves.interconnect,
                partial(group_load, imbalance, experts),
            )
            for source in {*value, *gradient}
        }
        forward = np.array([[known[a][b] for b in value] for a in value])
        backward = np.array([[known[b][a] for b in gradient] for a in gradient])
        pairs = states[:, None], states[None, :]
        np.testing.assert_allclose(moves.forward_ns(*pairs), forward, rtol=1e-9)
        np.testing.assert_allclose(moves.total_ns(*pairs), forward + backward, rtol=1e-9)
