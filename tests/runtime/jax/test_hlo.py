"""Collectives read from HLO text: who takes part, how much, how often."""

from __future__ import annotations

import pytest

from meshwright.runtime.jax import CompiledCollective, collectives_of

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))


def of(*lines: str) -> list[CompiledCollective]:
    """Of a module whose entry has these lines."""
    return collectives_of("\n".join(["ENTRY %main (p: f32[8]) -> f32[8] {", *lines, "}"]))


@pytest.mark.parametrize(
    "groups",
    [
        "{{0,1},{2,3},{4,5},{6,7}}",
        "[4,2]<=[8]",
        "[4,2]<=[2,2,2]T(0,1,2)",
        "mesh['a'=4,'b'=2] {'b'}",
        "mesh['b'=2,'a'=4], device_ids=([4,2]T(1,0)) {'b'}",
    ],
)
def test_groups_are_read_in_each_notation(groups: str) -> None:
    line = f"  %r = f64[4,8]{{1,0}} reduce-scatter(%x), replica_groups={groups}, dimensions={{0}}"
    assert of(line) == [CompiledCollective("reduce-scatter", PAIRS, "f64", 64, 1)]


def test_devices_far_apart_are_grouped() -> None:
    (found,) = of("  %g = f32[8]{0} all-gather(%x), replica_groups=[2,4]<=[4,2]T(1,0)")
    assert found.groups == ((0, 2, 4, 6), (1, 3, 5, 7))


def test_arrays_that_are_reduced_together_count_each() -> None:
    line = "  %r = (f32[2,3]{1,0}, f32[]) all-reduce(%a, %b), replica_groups={{0,1}}, to_apply=%add"
    assert [own.elements for own in of(line)] == [6, 1]


def test_of_a_started_gather_what_it_makes_counts() -> None:
    (found,) = of("  %g = (f32[4]{0}, f32[8]{0}) all-gather-start(%x), replica_groups={{0,1}}")
    assert (found.kind, found.elements) == ("all-gather", 8)


def test_a_loop_repeats_what_is_in_it() -> None:
    text = "\n".join(
        [
            "%body (s: f32[8]) -> f32[8] {",
            "  %r = f32[8]{0} all-reduce(%s), replica_groups={{0,1}}, to_apply=%add",
            "}",
            "ENTRY %main (p: f32[8]) -> f32[8] {",
            "  %w = f32[8]{0} while(%p), condition=%c, body=%body, "
            'backend_config={"known_trip_count":{"n":"3"}}',
            "}",
        ]
    )
    assert [own.times for own in collectives_of(text)] == [3]
    with pytest.raises(ValueError, match="does not say how often it runs"):
        collectives_of(text.replace("known_trip_count", "unknown"))


def test_a_collective_without_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="does not say who takes part"):
        of("  %r = f32[8]{0} all-reduce(%x), to_apply=%add")
