"""A plan as people read it."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from meshwright.plugins.planner import preset
from meshwright.render import plan_text, render_groups, render_plan
from meshwright.render.axes import AxisNames
from meshwright.schema import (
    Constraints,
    Cost,
    Dim,
    Layout,
    LayoutPair,
    LoadedDim,
    MemoryUse,
    Mesh,
    OpPlan,
    Padding,
    ParameterPlan,
    Pin,
    Pipeline,
    Plan,
    Redistribution,
    Schedule,
    Search,
    SequenceOrder,
    Setup,
    Stage,
    Step,
    SubDim,
    TensorPlan,
    Wishes,
)

MESH = Mesh.model_validate(
    {
        "axes": [
            {"name": "node", "size": 2, "level": "node"},
            {"name": "gpu0", "size": 4, "level": "gpu"},
            {"name": "gpu1", "size": 2, "level": "gpu"},
        ]
    }
)
SPLIT = Layout(
    dims=(
        Dim(parts=(SubDim(size=64, axes=("node",)),)),
        Dim(parts=(SubDim(size=8, axes=("gpu0", "gpu1")), SubDim(size=4))),
    )
)
WHOLE = Layout(dims=(Dim(parts=(SubDim(size=64),)), Dim(parts=(SubDim(size=32),))))
GATHER = Step(
    kind="all_gather", axes=("gpu0", "gpu1"), payload_bytes=8192, peak_bytes=9216, ns=1500, to=WHOLE
)


def plan(**changes: Any) -> Plan:
    """Three layers, of which the last runs replicated."""
    ops = tuple(
        OpPlan(
            op=f"layers.{layer}.mlp",
            kind="linear",
            rule="b k, n k -> b n",
            strategy={"b": ("node",), "n": ("gpu0", "gpu1")} if layer < 2 else {},
            compute_ns=1e6,
        )
        for layer in range(3)
    )
    tensors = tuple(
        TensorPlan(tensor=op.op, rest=LayoutPair(value=SPLIT if op.strategy else WHOLE))
        for op in ops
    )
    stage = Stage(
        mesh=MESH,
        ops=ops,
        tensors=tensors,
        parameters=(
            ParameterPlan(
                tensor="layers.0.mlp.weight", value=WHOLE, gradient=WHOLE, optimizer=SPLIT,
                value_bytes=4096, gradient_bytes=4096, optimizer_bytes=1024,
            ),
        ),
        redistributions=(
            Redistribution(
                tensor="layers.1.mlp", op="layers.2.mlp", traffic="activation",
                forward=(GATHER,), again=True, ns=3000, counted_ns=3000,
            ),
        ),
    )  # fmt: skip
    document: dict[str, Any] = {
        "name": "toy", "graph": "graph_1", "topology": "topo_1", "setup": "setup_1",
        "calibration": "cal_1", "stages": (stage,),
        "cost": Cost(
            step_ns=3.003e6, objective_ns=3.003e6, compute_ns=3e6,
            communication_ns={"activation": 6000},
            exposed_ns={"activation": 3000},
            memory_bytes=MemoryUse(parameters=4096, activations=1 << 20, capacity=1 << 21),
        ),
        "search": Search(
            found_by="dynamic_programming", outcome="feasible", cost_ns=3.003e6,
            lower_bound_ns=2.9e6, gap=0.0355, meshes=("2x4x2",),
        ),
    }  # fmt: skip
    return Plan(**{**document, **changes})


def test_the_head_says_what_it_costs_and_why_it_fits() -> None:
    text = plan_text(plan())
    assert "node=2 × gpu0=4 (gpu) × gpu1=2 (gpu): 16 devices" in text
    assert "1 MiB of 2 MiB (50.2 %, headroom 1020 KiB): parameters 4 KiB" in text
    assert "3 ms = compute 3 ms + exposed communication 3 µs (activation 3 µs of 6 µs)" in text
    assert "objective feasible, with replicated-op: 3 ms, lower bound 2.9 ms, gap 3.5 %" in text


def test_gradients_that_are_summed_over_the_batch_are_told() -> None:
    assert "training, adamw;" in plan_text(plan(), setup=Setup(symbols={"batch": 4}))
    said = plan_text(plan(), setup=Setup(symbols={"batch": 4}, gradients="sum"))
    assert "training, adamw, gradients summed over the batch;" in said


def test_sizes_that_are_filled_up_are_told_with_their_dims() -> None:
    own = [Padding(tensor=f"layers.{k}.w", dim=1, size=50257, padded=50304) for k in range(4)]
    text = plan_text(plan(padding=(*own, Padding(tensor="x", dim=0, size=7, padded=8))))
    at = [" ".join(line.split()) for line in text.splitlines()]
    first = "padding 50257 -> 50304 in layers.0.w dim 1, layers.1.w dim 1, layers.2.w dim 1"
    assert at[at.index(f"{first} and 1 more") + 1] == "7 -> 8 in x dim 0"
    assert "padding" not in plan_text(plan())


def test_the_order_of_a_sequence_is_told() -> None:
    order = SequenceOrder(
        size=64,
        chunks=8,
        loaded=(LoadedDim(tensor="ids", dim=1), LoadedDim(tensor="cos", dim=0)),
        by_position=tuple(f"layers.{k}.attention" for k in range(5)),
    )
    text = " ".join(plan_text(plan(order=(order,))).split())
    assert (
        "order 64 positions in 8 chunks, i and 7-i for part i of 4: ids dim 1, cos dim 0; " in text
    )
    assert (
        "by true positions: layers.0.attention, layers.1.attention, layers.2.attention and 2 more"
        in text
    )
    assert "chunks" not in plan_text(plan())


def test_equal_layers_are_one_line() -> None:
    lines = plan_text(plan()).splitlines()
    folded = next(line for line in lines if "layers.{0-1}.mlp ×2" in line)
    assert "b@node n@gpu" in folded
    assert "[64@node, (8@gpu 4)]" in folded
    assert folded.endswith("2 ms")  # both layers
    assert "replicated" in next(line for line in lines if line.startswith(" layers.2.mlp"))


def test_axes_on_which_followers_travel_are_marked() -> None:
    (stage,) = plan().stages
    ops = tuple(op.model_copy(update={"followers": ("gpu0", "gpu1")}) for op in stage.ops)
    text = plan_text(plan(stages=(stage.model_copy(update={"ops": ops}),)))
    assert "b@node n@gpu ?gpu" in text


def test_a_narrow_terminal_clips_no_number_and_no_strategy() -> None:
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(render_plan(long_names()))
    text = out.getvalue()
    for column in ("strategy", "output", "compute", "bytes"):
        assert column in text
    assert text.count("µs") == plan_text(long_names()).count("µs")


def long_names() -> Plan:
    """As plan(), its modules nested as in a real program."""
    text = plan().to_json().replace("layers.", "model.language_model.decoder.layers.")
    return Plan.from_json(text)


def test_a_redistribution_names_collective_axes_bytes_and_time() -> None:
    text = plan_text(plan())
    assert "forward, again in backward: all_gather(gpu) 8 KiB 1.5 µs" in text
    assert "to layers.*.mlp" in text


def test_the_largest_temporary_memory_of_a_redistribution_is_told() -> None:
    text = " ".join(plan_text(plan()).split())
    assert "the largest redistribution takes 9 KiB while it runs" in text
    assert plan().largest_redistribution_bytes == 9216
    assert plan().stages[0].redistributions[0].largest_step_bytes == 9216
    still = plan().stages[0].model_copy(update={"redistributions": ()})
    assert "while it runs" not in plan_text(plan(stages=(still,)))


def test_groups_are_listed_rank_by_rank() -> None:
    # the axes gpu0 and gpu1 of 2 x 4 x 2: a group of eight in each node
    out = io.StringIO()
    Console(file=out, width=140, color_system=None).print(render_groups(plan().stages[0]))
    line = next(line for line in out.getvalue().splitlines() if "all_gather" in line)
    assert line.split() == [
        "gpu", "all_gather", "2", "of", "8", "[0,1,2,3,4,5,6,7]", "[8,9,10,11,12,13,14,15]",
    ]  # fmt: skip
    still = plan().stages[0].model_copy(update={"redistributions": ()})
    assert str(render_groups(still)) == "\nGroups: none"


def test_parameters_at_rest_say_where_the_optimizer_lies() -> None:
    line = next(line for line in plan_text(plan()).splitlines() if "mlp.weight" in line)
    assert line.split()[1:5] == ["[64,", "32]", "same", "[64@node,"]
    assert line.endswith("9 KiB")


def test_what_is_odd_is_noted() -> None:
    text = plan_text(
        plan(
            repeated_work=0.25,
            unknown_kinds=("fft",),
            notes=("8 devices stay idle",),
        )
    )
    assert "25.0 % of the arithmetic is repeated" in text
    assert "unknown kinds, kept replicated: fft" in text
    assert "8 devices stay idle" in text


def test_what_was_asked_is_said_as_people_say_it() -> None:
    wishes = Wishes(
        pins=(
            Pin(op="*.mlp", strategy={"n": ("gpu0",)}),
            Pin(op="a", outputs=((8, ("dp", "cp")),)),
        ),
        constraints=Constraints(fully_use_devices=True),
        pipeline=Pipeline(ranks=None, cuts=("b", "c")),
    )
    lines = [line.strip() for line in plan_text(plan(wishes=wishes)).splitlines()]
    at = next(at for at, line in enumerate(lines) if line.startswith("asked"))
    assert lines[at].split("  ", 1)[1].strip() == (
        "constraints fully_use_devices true; pipeline cuts b, c"
    )
    assert lines[at + 1].split("  ", 1)[1].strip() == "*.mlp:n=gpu0"
    assert lines[at + 2] == "a:->((8,dp+cp))"
    assert "asked" not in plan_text(plan())


def test_axes_that_go_together_have_one_name() -> None:
    names = AxisNames(MESH)
    assert names.short(("node", "gpu0", "gpu1")) == ("all",)
    assert names.short(("gpu0", "gpu1")) == ("gpu",)
    assert names.short(("gpu1", "gpu0")) == ("gpu1", "gpu0")
    assert names.short(("node", "gpu0")) == ("node", "gpu0")
    assert names.legend == " (gpu = gpu0 gpu1, all = node gpu0 gpu1)"


def test_stages_of_a_mixed_cluster_say_their_devices() -> None:
    (stage,) = plan().stages
    half = MESH.model_copy(update={"axes": MESH.axes[1:]})
    behind = stage.model_copy(update={"pipeline_rank": 1, "ranks_from": 16, "mesh": half})
    staged = plan(stages=(stage, behind), schedule=Schedule(kind="1f1b", ranks=2), microbatches=2)
    mixed = preset("a100-2x8+h100-1x8")
    text = " ".join(plan_text(staged, topology=mixed).split())
    assert "2 ranks of 16 and 8 devices" in text
    assert "on 16 NVIDIA A100 SXM4 80GB" in text
    assert "on 8 NVIDIA H100 SXM5 80GB" in text
    assert "NVIDIA" not in plan_text(staged, topology=preset("h100-3x8"))
