"""Examples at the end of each command's `--help`, by the command's path below `meshwright`."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "plan": (
        "meshwright plan llama.json --topology h100-8x8 -o plan.json",
        "meshwright plan llama.json --topology h100-8x8 --batch 512 --pipeline 4",
        "meshwright plan llama.json --topology h100-8x8 --target megatron-core -o plan.json",
        "meshwright plan llama.json --topology h100-8x8 --pin '*.q_proj:k=d0'",
    ),
    "sweep": (
        "meshwright sweep llama.json --topology 'h100-{1,2,4}x8,b200-{1,2}x8' -o sweep.json",
        "meshwright sweep llama.json --topology h100-8x8 --batch 128,256 --price h100=2.5",
    ),
    "estimate": (
        "meshwright estimate llama.json --topology h100-8x8 --tp 8 --zero 1",
        "meshwright estimate llama.json --topology h100-8x8 --tp 4 --pp 2 --microbatches 16",
        "meshwright estimate --table runs.csv -o predictions.csv",
    ),
    "replan": ("meshwright replan plan.json --topology h100-4x8 --steps 20000 -o new.json",),
    "solve": ("meshwright solve cost-graph.json --seconds 30 -o solution.json",),
    "show": (
        "meshwright show plan.json",
        "meshwright show plan.json --ops '*.q_proj'",
        "meshwright show plan.json --json",
    ),
    "compare": (
        "meshwright compare first.json second.json",
        "meshwright compare first.json second.json third.json --baseline 2",
    ),
    "explain": ("meshwright explain plan.json --op '*.q_proj' --seconds 20",),
    "simulate": ("meshwright simulate plan.json --trace trace.json",),
    "verify": ("meshwright verify plan.json",),
    "export": (
        "meshwright export plan.json --to megatron-core",
        "meshwright export plan.json --to dtensor -o placements.json",
    ),
    "transfer": (
        "meshwright transfer old.json new.json",
        "meshwright transfer old.json new.json --state value --rank 3",
    ),
    "agent": (
        "meshwright agent -o samples.json --seconds 300",
        "meshwright agent --serve --server http://localhost:8780",
    ),
    "agents": ("meshwright agents --server http://localhost:8780",),
    "measure": ("meshwright measure --server http://localhost:8780 --seconds 300",),
    "fit": ("meshwright fit samples.json -o calibration.json",),
    "calibrations list": ("meshwright calibrations list --server http://localhost:8780",),
    "calibrations show": ("meshwright calibrations show calibration.json --samples samples.json",),
    "topologies": ("meshwright topologies --example 16x8",),
    "validate": ("meshwright validate graph.json",),
    "capture hf": ("meshwright capture hf config.json --batch 64 --seq 4096 -o graph.json",),
    "capture torch": ("meshwright capture torch models.vision:recipe --batch 256 -o graph.json",),
    "capture decoder": (
        "meshwright capture decoder --layers 32 --hidden 4096 --heads 32 --kv-heads 8 --ffn 14336 "
        "--vocabulary 128256 --batch 64 --seq 8192 -o graph.json",
    ),
    "capture onnx": ("meshwright capture onnx model.onnx --size batch=32 -o graph.json",),
    "capture jax": (
        "meshwright capture jax models.decoder:recipe --batch 64 --seq 4096 -o graph.json",
    ),
    "capture mindspore": (
        "meshwright capture mindspore networks.bert:recipe --batch 64 -o graph.json",
    ),
}
