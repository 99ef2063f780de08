"""Parts of a topology for pipeline ranks."""

from __future__ import annotations

import pytest

from meshwright.schema import InvalidInput
from meshwright_costmodel.presets import preset
from meshwright_solver.pipeline.rank_topology import rank_counts, split
from tests.solver.small_graphs import topology


def test_parts_are_cut_from_the_slowest_level_inwards() -> None:
    devices = topology(4, 8)
    part, link = split(devices, 2)
    assert [(level.name, level.size) for level in part.levels] == [("node", 2), ("gpu", 8)]
    assert link == devices.levels[0].link
    part, _ = split(devices, 4)
    assert [(level.name, level.size) for level in part.levels] == [("gpu", 8)]
    part, link = split(devices, 8)
    assert [(level.name, level.size) for level in part.levels] == [("gpu", 4)]
    assert link == devices.levels[0].link
    part, _ = split(devices, 32)
    assert part.device_count == 1
    part, link = split(topology(1, 8), 2)
    assert link == topology(1, 8).levels[1].link


def test_every_count_that_can_be_made_is_listed() -> None:
    devices = topology(6, 8)
    counts = rank_counts(devices)
    assert counts == (1, 2, 3, 6, 12, 24, 48)
    for count in counts[1:]:
        assert split(devices, count)[0].device_count * count == 48
    for count in (4, 5, 8, 96):
        with pytest.raises(InvalidInput, match=f"{count} pipeline ranks"):
            split(devices, count)


def test_a_part_of_a_full_mesh_has_its_own_wires_and_one_of_a_torus_is_a_line() -> None:
    part, _ = split(preset("mi300x-1x8"), 2)
    assert [(level.size, level.link.bytes_per_s) for level in part.levels] == [(4, 3 * 64e9)]
    part, link = split(preset("tpu-v5p-8x8x8"), 4)
    assert [(level.name, level.size, level.link.kind) for level in part.levels] == [
        ("x", 2, "grid"),
        ("y", 8, "torus"),
        ("z", 8, "torus"),
    ]
    assert link.kind == "torus"
