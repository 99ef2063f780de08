"""Notes on matrix products in float32, which devices run far below their rate in bfloat16."""

from __future__ import annotations

from meshwright.schema import Graph, Plan, Topology

# kinds whose time is that of matrix products
_PRODUCTS = frozenset({"linear", "matmul", "conv", "conv_transpose", "attention", "expert_matmul"})
_REMEDY = "`--dtype bfloat16`, or with `--autocast bfloat16` for parameters in float32"
LEAST_GAIN = 2.0  # chosen: below it, other precisions are no remedy for a slow plan


def graph_precision(graph: Graph) -> str | None:
    """A note on a graph whose matrix products are all in float32; None for others."""
    products = {graph.tensor(op.outputs[0]).dtype for op in graph.ops if op.kind in _PRODUCTS}
    if products != {"float32"}:
        return None
    return (
        "the matrix products are in float32, which a plan counts at the rate without TF32. To use "
        f"low precision, capture with {_REMEDY}"
    )


def plan_precision(plan: Plan, topology: Topology | None) -> str | None:
    """A note on a plan whose FLOPs are all in float32 on devices that are faster in bfloat16."""
    if topology is None or set(plan.model_flops) != {"float32"}:
        return None
    device = topology.groups[0].device
    plain, low = (device.peak_flops_per_s(dtype) for dtype in ("float32", "bfloat16"))
    if low < LEAST_GAIN * plain:
        return None
    return (
        f"the matrix products are in float32, at {plain / 1e12:.3g} TFLOP/s of a device; low "
        f"precision has {low / 1e12:.3g}. Capture with {_REMEDY}. If the program allows TF32, set "
        "the float32 rate of TF32 in the topology"
    )
