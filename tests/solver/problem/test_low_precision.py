"""Products in 8 bits: which they are, and what they cost, save and send."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema import Degrees, Graph, Request, Setup, SetupError
from meshwright.schema.setup import Precision
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem import low_precision
from meshwright_solver.problem.values import Values, find_values
from meshwright_solver.simulation.step import step_of
from meshwright_solver.simulation.summary import rank_step
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.random_problems import Case, cases, checked_plan, random_choice
from tests.solver.small_graphs import GraphMaker, one_level_mesh, problem, topology

GRAPHS = Path(__file__).parents[3] / "examples" / "graphs"
RECIPES: tuple[Precision, ...] = ("fp8_tensorwise", "fp8_blockwise", "mxfp8")


def values_of(maker: GraphMaker, *outputs: str, loss: str | None = None) -> Values:
    graph = maker.graph(*outputs, loss=loss)
    return find_values(problem(graph, topology(4, eight_bit=True), Setup(precision="mxfp8")))


def products(maker: GraphMaker, *outputs: str, loss: str | None = None) -> set[str]:
    found = values_of(maker, *outputs, loss=loss)
    return {maker.ops[position]["name"] for position in found.low_precision.products}


# --- which products ------------------------------------------------------------------------------


def a_layer(maker: GraphMaker, width: int = 512) -> str:
    x = maker.input("x", 64, 512)
    first = maker.op("linear", [x, maker.parameter("w1", width, 512)], [64, width], "up")
    active = maker.op("gelu", [first], [64, width], "gelu")
    return maker.op("linear", [active, maker.parameter("w2", 512, width)], [64, 512], "down")


def test_products_with_large_weights_are_in_eight_bits():
    maker = GraphMaker("bfloat16")
    assert products(maker, a_layer(maker)) == {"up", "down"}


def test_products_of_float32_keep_their_dtype():
    maker = GraphMaker("float32")
    assert products(maker, a_layer(maker)) == set()


@pytest.mark.parametrize("width", [256, 520])  # too narrow; no multiple of 16
def test_products_with_narrow_or_unaligned_weights_keep_their_dtype(width: int):
    maker = GraphMaker("bfloat16")
    assert products(maker, a_layer(maker, width)) == set()


def test_the_head_keeps_its_dtype_through_casts_before_the_loss():
    maker = GraphMaker("bfloat16")
    body = a_layer(maker)
    logits = maker.op("linear", [body, maker.parameter("head", 1024, 512)], [64, 1024], "head")
    wide = maker.op("cast", [logits], [64, 1024], "wide", attrs={"dtype": "float32"})
    maker.tensors[-1]["dtype"] = "float32"
    label = maker.tensor("label", [64], "label", dtype="int64")
    loss = maker.op("cross_entropy", [wide, label], [], "loss")
    maker.tensors[-1]["dtype"] = "float32"
    assert products(maker, loss, loss=loss) == {"up", "down"}


def test_products_with_the_cast_of_a_weight_are_in_eight_bits():
    maker = GraphMaker("bfloat16")
    weight = maker.parameter("w", 512, 512, dtype="float32")
    narrow = maker.op("cast", [weight], [512, 512], "narrow", attrs={"dtype": "bfloat16"})
    out = maker.op("linear", [maker.input("x", 64, 512), narrow], [64, 512], "product")
    assert products(maker, out) == {"product"}


def test_products_of_two_activations_keep_their_dtype():
    maker = GraphMaker("bfloat16")
    body = a_layer(maker)
    out = maker.op("matmul", [body, maker.op("gelu", [body], [64, 512])], [64, 512], "scores")
    maker.ops[-1]["attrs"] = {"transpose_b": True}
    maker.tensors[-1]["shape"] = [64, 64]
    assert products(maker, out) == {"up", "down"}


def test_a_value_is_saved_in_eight_bits_only_if_nothing_else_needs_it():
    maker = GraphMaker("bfloat16")
    body = a_layer(maker)
    assert values_of(maker, body).low_precision.saved == {"x", "gelu:out"}
    # the gradient of the product of both wants the whole value
    maker = GraphMaker("bfloat16")
    body = a_layer(maker)
    maker.op("mul", [body, "gelu:out"], [64, 512], "again")
    assert "gelu:out" not in values_of(maker, "again:out").low_precision.saved


def test_a_value_is_sent_in_eight_bits_only_to_products_in_eight_bits():
    maker = GraphMaker("bfloat16")
    body = a_layer(maker)
    sent = values_of(maker, maker.op("add", [body, "x"], [64, 512])).low_precision.sent
    assert {"w1", "w2", "gelu:out"} <= sent
    assert body not in sent
    assert "x" not in sent


def test_a_device_without_eight_bit_products_is_refused():
    maker = GraphMaker("bfloat16")
    graph = maker.graph(a_layer(maker))
    with pytest.raises(SetupError, match=r"precision mxfp8: toy multiplies no float8_e4m3"):
        problem(graph, topology(4), Setup(precision="mxfp8"))


# --- what they cost ------------------------------------------------------------------------------


def test_a_product_takes_half_the_time_and_its_quantization_that_of_the_bytes():
    maker = GraphMaker("bfloat16")
    rows, width = 4096, 4096
    x = maker.op("gelu", [maker.input("x", rows, width)], [rows, width], "x2")
    y = maker.op("gelu", [maker.parameter("bias", rows, width)], [rows, width], "y2")
    both = maker.op("add", [x, y], [rows, width], "both")
    out = maker.op("linear", [both, maker.parameter("w", width, width)], [rows, width], "product")
    graph = maker.graph(out)
    cluster, mesh = one_level_mesh(1)
    device = topology(1, eight_bit=True, memory_bytes_per_s=1e12, flops_per_s=1e12).device
    cluster = cluster.model_copy(update={"device": device})
    ns = {}
    for precision in ("graph", *RECIPES):
        found = problem(graph, cluster, Setup(precision=precision))
        models = Models(found, find_values(found), mesh)
        model = models.ops.model(found.position_of["product"])
        ns[precision] = [float(part[0]) for part in models.passes_ns(model, model.choices[:1])]
    launch = 5_000
    flops, elements = 2 * rows * width * width, rows * width
    sixteen, eight = flops / (4e12 * 0.65) * 1e9, flops / (8e12 * 0.65) * 1e9
    assert ns["graph"][0] == pytest.approx(sixteen + launch, rel=1e-3)
    for precision, moved in (("fp8_tensorwise", 6), ("fp8_blockwise", 4), ("mxfp8", 4)):
        quantization = moved * elements / (1e12 * 0.75) * 1e9
        forward, inputs, weights = ns[precision]
        assert forward == pytest.approx(eight + quantization + launch, rel=1e-3)
        # the gradient of the result is quantized once for both products
        assert inputs + weights == pytest.approx(2 * eight + quantization + launch, rel=1e-3)


def test_a_gather_sends_half_of_the_bytes_and_a_sum_and_a_gradient_all():
    maker = GraphMaker("bfloat16")
    out = a_layer(maker)
    after = maker.op("layer_norm", [out, maker.parameter("n", 512)], [64, 512], "norm")
    end = maker.op("linear", [after, maker.parameter("w3", 512, 512)], [64, 512], "end")
    graph = maker.graph(end)
    found = problem(graph, topology(4, eight_bit=True, latency_ns=0), Setup(precision="mxfp8"))
    plain = problem(graph, topology(4, eight_bit=True, latency_ns=0), Setup())
    _, mesh = one_level_mesh(4)
    mesh = mesh.model_copy(
        update={"axes": tuple(a.model_copy(update={"level": "gpu"}) for a in mesh.axes)}
    )
    half, whole = (Models(each, find_values(each), mesh) for each in (found, plain))
    narrow = half.redistributions(half.ops.space("norm:out"))
    wide = whole.redistributions(whole.ops.space("norm:out"))
    states = narrow.space.states[:, 0]
    slots = narrow.space.slots
    rows, replicated = np.flatnonzero(states == 0), np.flatnonzero(states == slots)
    partial, varied = np.flatnonzero(states == slots + 1), np.flatnonzero(states == slots + 2)
    assert wide.forward_ns(rows, replicated) > 0
    assert narrow.forward_ns(rows, replicated) == pytest.approx(
        wide.forward_ns(rows, replicated) / 2
    )
    assert narrow.forward_ns(partial, rows) == wide.forward_ns(partial, rows)
    assert narrow.backward_ns(rows, varied) == wide.backward_ns(rows, varied)


# --- on random plans -----------------------------------------------------------------------------


@pytest.fixture
def every_size() -> Iterator[None]:
    """The products of toys count as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(low_precision, "LEAST_DIM", 1)
        patch.setattr(low_precision, "MULTIPLE", 1)
        yield


@pytest.mark.usefixtures("every_size")
@pytest.mark.parametrize("precision", RECIPES)
def test_random_plans_cost_what_the_cost_graph_and_the_simulation_say(precision: Precision):
    in_eight_bits = []

    @settings(max_examples=60, deadline=None, database=None)
    @given(cases(precision=precision), st.integers(0, 2**32 - 1))
    def check(case: Case, seed: int) -> None:
        choice = random_choice(case.lowered.graph, seed)
        assume(choice is not None)
        assert choice is not None
        in_eight_bits.append(bool(case.models.values.low_precision.products))
        read = checked_plan(case, choice)
        cost, memory = read.cost, read.cost.memory_bytes
        found = case.models.problem
        if found.training:
            step = step_of(read, found.graph, found.topology, found.setup, found.calibration)
            own = rank_step(step, 0)
            assert own.compute_ns == pytest.approx(cost.compute_ns)
            few = len(case.models.values.values)
            assert own.saved_bytes == pytest.approx(memory.activations, abs=few)
            assert own.peak_bytes == pytest.approx(memory.total - memory.reserved, abs=few)

    check()
    assert sum(in_eight_bits) > len(in_eight_bits) / 4


# --- against published runs ----------------------------------------------------------------------


def test_eight_bits_gain_on_llama3_8b_what_they_gain_in_megatron_lm():
    """FlagPerf, Megatron-LM on 8 H100, tp 2, batch 512: 64.70 s in bfloat16, 50.00 s in FP8."""
    graph = Graph.from_json(gzip.decompress((GRAPHS / "llama3-8b.json.gz").read_bytes()))
    seconds = {}
    for precision in ("graph", "fp8_tensorwise"):
        answer = plan(
            Request(
                graph=graph,
                topology=preset("h100-1x8"),
                setup=Setup(global_batch=512, microbatches=128, precision=precision),
                degrees=Degrees(tp=2, zero=1, sequence_parallel=True),
            )
        )
        assert answer.plan is not None
        seconds[precision] = answer.plan.cost.step_ns / 1e9
        assert any("in 8 bits" in note for note in answer.plan.notes) == (precision != "graph")
    gain = seconds["graph"] / seconds["fp8_tensorwise"]
    assert gain == pytest.approx(64.70 / 50.00, rel=0.08)
