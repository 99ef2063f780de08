"""Pins are kept exactly, or refused with the reason."""

from __future__ import annotations

import pytest

from meshwright.schema import Budget, Infeasible, Pin, Plan, RequestError, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, topology


def layers() -> GraphMaker:
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 8)
    for k in range(3):
        fields = {"module": f"model.layers.{k}"}
        w = maker.parameter(f"w{k}", 8, 8)
        x = maker.op("linear", [x, w], ["batch", 8], f"fc{k}", **fields)
        x = maker.op("gelu", [x], ["batch", 8], f"act{k}", **fields)
    return maker


def ask(
    *pins: Pin, maker: GraphMaker | None = None, levels: tuple[int, ...] = (2, 2), axes: int = 2
):
    return plan(
        toy_request(
            graph=(maker or layers()).graph("act2:out"),
            topology=topology(*levels),
            setup=Setup(microbatches=1),
            budget=Budget(max_axes=axes),
            pins=pins,
        )
    )


def planned(*pins: Pin, **more) -> Plan:
    answer = ask(*pins, **more)
    assert answer.plan is not None
    return answer.plan


def refused(*pins: Pin, **more) -> Infeasible:
    answer = ask(*pins, **more)
    assert answer.infeasible is not None
    return answer.infeasible


def strategy(found: Plan, op: str) -> dict[str, tuple[str, ...]]:
    (own,) = [own for own in found.stages[0].ops if own.op == op]
    assert own.partial == {}
    return own.strategy


COLUMN = {"n": ("gpu",)}
ROW = {"k": ("gpu",)}


def test_a_pin_is_kept_exactly_and_no_other_axis_is_used():
    for wish in ({"n": ("gpu",)}, {"b0": ("node",), "k": ("gpu",)}, {"n": ("node", "gpu")}, {}):
        assert strategy(planned(Pin(op="fc1", strategy=wish)), "fc1") == wish


def test_a_pin_is_a_pattern_of_names_or_of_modules():
    found = planned(Pin(op="fc*", strategy=COLUMN))
    assert [strategy(found, f"fc{k}") for k in range(3)] == [COLUMN] * 3
    found = planned(Pin(op="model.layers.1", strategy={}))
    assert strategy(found, "fc1") == strategy(found, "act1") == {}


def test_the_last_pin_that_matches_wins_and_the_request_over_the_graph():
    found = planned(Pin(op="fc*", strategy=COLUMN), Pin(op="fc1", strategy=ROW))
    assert [strategy(found, f"fc{k}") for k in range(3)] == [COLUMN, ROW, COLUMN]
    maker = layers()
    next(op for op in maker.ops if op["name"] == "fc0")["strategy"] = {"n": ["gpu"]}
    assert strategy(planned(maker=maker), "fc0") == COLUMN
    assert strategy(planned(Pin(op="fc0", strategy=ROW), maker=maker), "fc0") == ROW


def test_a_level_stands_for_all_of_its_axes():
    found = planned(Pin(op="fc1", strategy=COLUMN), levels=(4,), axes=2)
    names = {axis.name for axis in found.stages[0].mesh.axes}
    assert names == {"gpu0", "gpu1"}
    assert set(strategy(found, "fc1")["n"]) == names


def test_one_axis_of_a_level_can_be_named():
    found = planned(Pin(op="fc1", strategy={"n": ("gpu0",), "b0": ("gpu1",)}), levels=(4,))
    assert strategy(found, "fc1") == {"n": ("gpu0",), "b0": ("gpu1",)}


def test_a_factor_stands_for_its_parts_and_a_part_for_itself():
    maker = layers()
    maker.op("reshape", ["act2:out"], ["batch", 4, 2], "view")
    for name in ("n", "n0"):
        answer = plan(
            toy_request(
                graph=maker.graph("view:out"),
                topology=topology(2),
                setup=Setup(microbatches=1),
                pins=(Pin(op="fc2", strategy={name: ("gpu",)}),),
            )
        )
        assert answer.plan is not None
        (used,) = strategy(answer.plan, "fc2")
        assert used in ("n0", "n1") if name == "n" else used == "n0"


@pytest.mark.parametrize(
    ("pin", "names"),
    [
        (Pin(op="fc9", strategy={}), ["'fc9' matches no op", "'fc0'"]),
        (Pin(op="fc0", strategy={"q": ("gpu",)}), ["op 'fc0' has no factor 'q'", "b0, k, n"]),
        (Pin(op="fc0", strategy={"n": ("rack",)}), ["no axis 'rack'", "gpu, node"]),
        (Pin(op="fc0", strategy={"n": ("gpu", "gpu")}), ["'gpu' is listed twice"]),
        (Pin(op="fc0", strategy={"n": ("gpu",), "k": ("gpu",)}), ["'gpu' is listed twice"]),
    ],
)
def test_a_pin_that_means_nothing_is_refused_by_name(pin, names):
    with pytest.raises(RequestError) as wrong:
        ask(pin)
    for name in names:
        assert name in wrong.value.detail


def test_a_pin_that_no_mesh_can_keep_is_infeasible_and_the_op_named():
    # 8 columns over 3 devices
    answer = refused(Pin(op="fc1", strategy=COLUMN), levels=(3,))
    assert answer.constraint == "pins"
    assert "'fc1'" in answer.detail
    # a factor that must not be sharded
    maker = layers()
    maker.op("sort", ["act2:out"], ["batch", 8], "sorted", attrs={"dim": 1})
    answer = refused(Pin(op="sorted", strategy={"d1": ("gpu",)}), maker=maker)
    assert answer.constraint == "pins"
    assert "'sorted'" in answer.detail


def test_a_later_pin_replaces_earlier_ones_and_those_of_the_graph():
    maker = layers()
    next(op for op in maker.ops if op["name"] == "fc1")["strategy"] = {"n": ["gpu"]}
    found = planned(Pin(op="fc1", strategy=ROW), Pin(op="fc*", strategy={}), maker=maker)
    assert [strategy(found, f"fc{k}") for k in range(3)] == [{}] * 3
    (note,) = [note for note in found.notes if "holds for no op" in note]
    assert "'fc1:k=gpu'" in note


def test_an_axis_that_only_finer_meshes_have_can_be_pinned_there():
    # 4 devices as 2 x 2 have a gpu1; as one axis they have none
    found = planned(Pin(op="fc1", strategy={"b0": ("gpu1",)}), levels=(4,), axes=2)
    assert strategy(found, "fc1") == {"b0": ("gpu1",)}
    with pytest.raises(RequestError, match="no axis 'gpu1'"):
        ask(Pin(op="fc1", strategy={"b0": ("gpu1",)}), levels=(4,), axes=1)


def test_the_plan_repeats_the_pins_of_its_request():
    pin = Pin(op="fc1", strategy=ROW)
    assert planned(pin).wishes.pins == (pin,)


# --- factors that may follow ---------------------------------------------------------------------


def attention(strategy: dict[str, tuple[str, ...]]) -> Plan:
    maker = GraphMaker()
    heads = [maker.op("gelu", [maker.parameter(f"p{n}", 4, 4, 8, 4)], [4, 4, 8, 4], n)
             for n in "qkv"]  # fmt: skip
    graph = maker.graph(maker.op("attention", heads, [4, 4, 8, 4], "it"))
    pins = (Pin(op="it", strategy=strategy),)
    answer = plan(toy_request(graph=graph, topology=topology(2, 2), pins=pins))
    assert answer.plan is not None
    return answer.plan


def followers(found: Plan) -> tuple[str, ...]:
    (own,) = [own for own in found.stages[0].ops if own.op == "it"]
    return own.followers


def test_what_may_follow_does_as_the_pin_says_of_it():
    both = ("node", "gpu")
    assert followers(attention({"s": both, "t": both})) == both
    assert followers(attention({"s": both, "t": ("gpu",)})) == ("gpu",)
    assert followers(attention({"s": both, "t": ()})) == ()
    free = attention({"s": both})
    assert strategy(free, "it") == {"s": both}
    named = [attention({"s": both, "t": t}) for t in (both, ("gpu",), ("node",), ())]
    assert free.cost.objective_ns == min(own.cost.objective_ns for own in named)


def test_what_follows_nothing_there_cannot_be_pinned():
    maker = layers()
    ids = maker.input("ids", "batch", dtype="int64")
    maker.op("embedding", [maker.parameter("rows", 8, 8), ids], ["batch", 8], "it")
    for wish in ({"b0": ("gpu",), "h": ("gpu",)}, {"b0": ("gpu",), "v": ("gpu",), "h": ("gpu",)}):
        with pytest.raises(RequestError, match="'gpu' is listed twice"):
            ask(Pin(op="it", strategy=wish), maker=maker)
