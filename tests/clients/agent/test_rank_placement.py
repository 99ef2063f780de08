from __future__ import annotations

import pytest

from meshwright.agent.rank_placement import RankGrid, places_of
from meshwright.schema import InvalidInput


def test_hosts_and_their_processes():
    assert places_of(["a", "a", "b", "b", "c", "c"]) == RankGrid((3, 2))
    assert places_of(["a"]) == RankGrid((1, 1))


def test_unequal_hosts_are_refused():
    with pytest.raises(InvalidInput, match="a: 2, b: 1"):
        places_of(["a", "a", "b"])


def test_ranks_that_go_round_the_hosts_are_refused():
    with pytest.raises(InvalidInput, match="not consecutive"):
        places_of(["a", "b", "a", "b"])


def test_groups_along_a_level_are_neighbours_and_cover_all():
    places = RankGrid((2, 4))
    assert places.groups((1, 2)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert places.groups((1, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert places.groups((2, 1)) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert places.groups((2, 4)) == [list(range(8))]
