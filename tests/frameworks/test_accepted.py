"""Every strategy that a search for a target considers is one that the framework itself accepts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.launch_options.export import text_of
from meshwright.schema import Request, Setup
from meshwright.schema.target import TARGETS, Target, setup_for
from meshwright_costmodel.presets import preset
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.planning.target.strategies import StrategySpace

FOLDER = "MESHWRIGHT_FRAMEWORKS"
CASES = 60  # chosen: of thousands of strategies; a process group for each takes a tenth of a second

pytestmark = pytest.mark.skipif(
    FOLDER not in os.environ, reason="`make test-frameworks` installs the frameworks"
)


def space_of(target: Target, experts: int, seed: int) -> tuple[StrategySpace, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    layers, heads = int(rng.choice([12, 18, 32])), int(rng.choice([8, 16, 24]))
    decoder = Decoder(
        layers=layers, hidden=heads * 64, heads=heads, kv_heads=8, vocabulary=32_000, ffn=2048,
        gated=True, experts=experts, top_k=2 if experts else 0, expert_ffn=512 if experts else 0,
    )  # fmt: skip
    graph = decoder_graph(decoder, batch=96, seq=4096)
    setup = Setup(global_batch=96, sequence_order="zigzag" if rng.integers(2) else "contiguous")
    topology = preset(str(rng.choice(["h100-2x8", "h100-4x8", "a100-80g-3x8"])))
    own = Request(graph=graph, topology=topology, setup=setup_for(target, setup), target=target)
    facts = {
        "layers": layers, "heads": heads, "kv_heads": 8, "hidden": heads * 64,
        "experts": experts or None, "devices": topology.device_count,
    }  # fmt: skip
    return StrategySpace(own, Anatomy(graph)), facts


def read_by(target: Target, cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    answers = folder / "answers.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.frameworks.accepted", target, str(answers)],
        input=json.dumps(cases), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(answers.read_text())
    return found


@pytest.mark.parametrize("experts", [0, 8])
@pytest.mark.parametrize("target", TARGETS)
def test_the_framework_accepts_the_strategies(target: Target, experts: int, tmp_path: Path) -> None:
    space, facts = space_of(target, experts, 3 * TARGETS.index(target) + experts)
    rng = np.random.default_rng(7)
    pairs = [
        (strategy, configuration)
        for strategy, configurations in space.strategies.items()
        if facts["kv_heads"] % strategy.degrees.tp == 0  # which the search asks of the graph
        for configuration in configurations
    ]
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:CASES]]
    uniforms = [space.uniform(strategy, configuration) for strategy, configuration in chosen]
    cases = [{**facts, "text": text_of(own, target)} for own in uniforms]
    for own, found in zip(uniforms, read_by(target, cases, tmp_path), strict=True):
        degrees = own.degrees
        wanted = {
            "dp": degrees.dp, "tp": degrees.tp, "cp": degrees.cp, "ep": degrees.ep,
            "pp": own.pipeline_ranks,
        }  # fmt: skip
        assert {name: found[name] for name in wanted} == wanted
        assert found.get("microbatches", own.microbatches) == own.microbatches
        assert found.get("zero", degrees.zero) == degrees.zero
        if found.get("layers") is not None:
            assert tuple(found["layers"]) == own.layers
