"""Stated options of requests, and the texts that tell plans of one graph apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from meshwright.reports.stated_options import LONGEST, difference_texts, stated_options
from meshwright.schema import Degrees, Graph, Pin, Pipeline, Plan, Setup, Topology, Wishes
from meshwright_solver.planning.planner import plan
from tests.service.samples import GRAPH, TOPOLOGY
from tests.solver.requests import toy_request

OPTIONS = st.dictionaries(
    st.sampled_from(["batch", "tp", "pins", "solver"]), st.sampled_from(["1", "2", "8"])
)


@given(st.lists(st.tuples(OPTIONS, st.integers(1, 3)), min_size=1, max_size=6))
def test_texts_are_equal_only_for_equal_requests(
    siblings: list[tuple[dict[str, str], int]],
) -> None:
    texts = [*difference_texts(siblings)]
    assert len(texts) == len(siblings)
    for text, (options, _) in zip(texts, siblings, strict=True):
        for other_text, (other, _) in zip(texts, siblings, strict=True):
            same = sorted(text.split(" · ")) == sorted(other_text.split(" · "))
            assert same == (options == other)
    shared = set.intersection(*(set(options.items()) for options, _ in siblings))
    for text in texts:
        assert not {f"{name} {value}" for name, value in shared} & {*text.split(" · ")}


def planned() -> Plan:
    request = toy_request(
        graph=Graph.from_dict(GRAPH), topology=Topology.from_dict(TOPOLOGY), setup=Setup()
    )
    found = plan(request).plan
    assert found is not None
    return found


def test_options_have_short_names_and_units() -> None:
    wishes = Wishes(
        degrees=Degrees(tp=8, zero=1, sequence_parallel=True), pipeline=Pipeline(ranks=2)
    )
    own = planned().model_copy(update={"wishes": wishes})
    setup = Setup(global_batch=512, memory_reserve=0.2)
    plain = planned().model_copy(update={"wishes": Wishes()})
    stated = [(stated_options(own, setup), 1), (stated_options(plain, Setup()), 1)]
    text, other = difference_texts(stated)
    assert {*text.split(" · ")} == {
        "tp 8", "ZeRO 1", "sequence parallel", "pp 2", "batch 512", "reserve 20 %",
    }  # fmt: skip
    assert other == ""


def test_long_values_are_cut_and_stay_distinct() -> None:
    pins = [
        tuple(Pin(op=f"layers.{layer}.linear", strategy={}) for layer in range(count))
        for count in (40, 41)
    ]
    values = [
        stated_options(planned().model_copy(update={"wishes": Wishes(pins=each)}), None)["pins"]
        for each in pins
    ]
    assert values[0] != values[1]
    assert all(len(value) <= LONGEST for value in values)
