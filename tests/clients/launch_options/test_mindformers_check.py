"""MindFormers' YAML is read again: what it states is the plan, or the export fails."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.launch_options import launch_of, mindformers, uniform_of
from meshwright.launch_options.mindformers_check import differences, refused_sizes
from meshwright.launch_options.yaml_text import options_of, yaml_text
from meshwright.planfile import PlanFile
from meshwright.schema import Degrees, Graph, Pipeline, Plan, Recompute, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.clients.conftest import Run
from tests.one_stage import one_stage_request
from tests.solver.layered import layered

CASES = {  # degrees, pipeline, microbatches, recomputation
    "dp8": (Degrees(dp=8), Pipeline(ranks=1), 2, Recompute(policy="none")),
    "tp2-zero3": (Degrees(dp=4, tp=2, zero=3), Pipeline(ranks=1), 1, Recompute(policy="none")),
    "pp2": (Degrees(dp=4), Pipeline(ranks=2), 4, Recompute(policy="full", blocks=1)),
    "pp2-uneven": (
        Degrees(dp=2), Pipeline(ranks=4, schedule="1f1b", cuts=("2.up", "4.up", "5.up")), 4,
        Recompute(policy="full"),
    ),
    "vpp": (
        Degrees(dp=4), Pipeline(ranks=2, schedule="interleaved_1f1b", stages_per_rank=2), 4,
        Recompute(policy="none"),
    ),
}  # fmt: skip


@cache
def planned(name: str) -> tuple[Plan, Graph, Setup]:
    degrees, pipeline, microbatches, recompute = CASES[name]
    graph = layered(8, batch=64)
    if pipeline.cuts:
        firsts = [next(op.name for op in graph.ops if _layer(op.name) == n) for n in (2, 4, 5)]
        pipeline = pipeline.model_copy(update={"cuts": tuple(firsts)})
    request = one_stage_request(
        graph=graph,
        topology=preset("h100-1x8"),
        setup=Setup(global_batch=64, microbatches=microbatches),
        degrees=degrees,
        pipeline=pipeline,
        recompute=recompute,
    )
    found = plan(request).plan
    assert found is not None
    return found, graph, request.setup


def _layer(name: str) -> int | None:
    numbers = re.findall(r"(?:^|\.)(\d+)\.", name)
    return int(numbers[0]) if numbers else None


@pytest.mark.parametrize("name", CASES)
def test_the_written_options_state_the_plan(name: str) -> None:
    found, graph, setup = planned(name)
    uniform = uniform_of(found, graph, setup)
    assert list(differences(mindformers.text(uniform), found, uniform)) == []
    assert not [said for said in launch_of(found, "mindformers", graph=graph, setup=setup).lost
                if "written YAML" in said]  # fmt: skip


# what changes no part of a plan: memory of small parameters, and options of other modes
_SILENT = (
    "parallel_optimizer_threshold", "search_mode", "gradients_mean", "enable_alltoall",
    "vocab_emb_dp", "gradient_accumulation_shard", "select_recompute", "use_parallel",
    "gradient_aggregation_group", "mp_comm_recompute", "parallel_optimizer_comm_recompute",
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_other_value_of_an_option_is_noticed(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    found, graph, setup = planned(name)
    uniform = uniform_of(found, graph, setup)
    lines = mindformers.text(uniform).splitlines()
    places = [
        place
        for place, line in enumerate(lines)
        if re.search(r": .*\d|: (True|False)", line)
        and line.split(":")[0].strip() not in _SILENT
        and not (name == "dp8" and "micro_batch_num" in line)
    ]
    place = data.draw(st.sampled_from(places))
    key, _, value = lines[place].partition(": ")
    if "micro_batch_num" in key and uniform.pipeline_ranks == 1:
        return  # of pipelines only
    if value in ("True", "False"):
        value = "False" if value == "True" else "True"
    else:
        numbers = list(re.finditer(r"-?\d+", value))
        number = data.draw(st.sampled_from(numbers))
        other = int(number[0]) + data.draw(st.sampled_from([1, 2, 7]))
        value = f"{value[: number.start()]}{other}{value[number.end() :]}"
    lines[place] = f"{key}: {value}"
    said = list(differences("\n".join(lines) + "\n", found, uniform))
    assert said, lines[place]


TREES = st.recursive(
    st.booleans() | st.integers() | st.from_regex(r"[a-z_]+", fullmatch=True)
    | st.lists(st.integers() | st.lists(st.integers(), max_size=3), max_size=4),
    lambda inner: st.dictionaries(
        st.from_regex(r"[a-z_]+", fullmatch=True), inner, min_size=1, max_size=4
    ),
    max_leaves=10,
)  # fmt: skip


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), TREES, min_size=1, max_size=4))
def test_a_written_tree_is_read_back(tree: dict[str, object]) -> None:
    assert options_of(yaml_text(tree)) == tree


@pytest.mark.parametrize(
    ("kind", "shape", "degrees", "said"),
    [
        ("embedding", [30, 64], Degrees(dp=1, tp=4), "30 vocabulary of op 'op': model_parallel 4"),
        ("embedding", [32, 66], Degrees(dp=1, tp=4), "66 hidden size of op 'op'"),
        ("embedding", [30, 64], Degrees(dp=4), None),
    ],
)
def test_sizes_that_the_degrees_do_not_divide_are_refused(
    kind: str, shape: list[int], degrees: Degrees, said: str | None
) -> None:
    tensors = [
        {"name": "w", "shape": shape, "dtype": "bfloat16", "role": "parameter"},
        {"name": "ids", "shape": [8, 16], "dtype": "int64", "role": "input"},
        {"name": "y", "shape": [8, 16, shape[1]], "dtype": "bfloat16"},
    ]
    ops = [{"name": "op", "kind": kind, "inputs": ["w", "ids"], "outputs": ["y"]}]
    graph = Graph.from_dict({"tensors": tensors, "ops": ops, "outputs": ["y"]})
    found, own, setup = planned("dp8")
    uniform = uniform_of(found, own, setup).model_copy(update={"degrees": degrees})
    refused = list(refused_sizes(graph, None, uniform))
    assert [text for text in refused if said and said in text] == (refused if said else [])
    assert bool(refused) == (said is not None)


def test_an_uneven_pipeline_is_exported_whole(run: Run, tmp_path: Path) -> None:
    found, graph, setup = planned("pp2-uneven")
    file = tmp_path / "plan.json"
    file.write_text(PlanFile(plan=found, graph=graph, setup=setup).to_json())
    ran = run("export", file, "--to", "mindformers")
    options = options_of(ran.out)
    assert ran.code == 0, ran.err
    assert options["model"] == {"model_config": {"offset": [0, 0, -1, 1]}}
