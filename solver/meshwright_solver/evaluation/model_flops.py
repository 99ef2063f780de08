"""Model FLOPs of a step: the arithmetic of the model itself, whatever the plan repeats.

For a matrix product, a convolution or an attention op with F FLOPs in the forward pass, the
backward pass has F FLOPs for each of the two operands that has a gradient. Attention has 2 F (its
two products with two operands each). Recomputation, repeated work and padding do not count, which
is the convention of model FLOPs utilization (Chowdhery et al., PaLM, 2022, appendix B). Causal
attention counts the lower triangle only. All other ops are bound by memory and do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from meshwright_solver.evaluation.notes import Chosen
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import OpModel

PRODUCTS = ("matmul", "convolution", "attention")


def model_flops(models: Models, chosen: Chosen) -> dict[str, float]:
    """FLOPs of a step on all devices together, by the dtype of the op."""
    flops: defaultdict[str, float] = defaultdict(float)
    for position, _, times in chosen:
        model = models.ops.model(position)
        if model.op_class in PRODUCTS and model.flops:
            flops[model.dtype] += times * _passes(model) * model.flops
    microbatches = models.problem.microbatches
    return {dtype: total * microbatches for dtype, total in sorted(flops.items())}


def added_flops(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The FLOPs of several parts of a model together, by dtype."""
    dtypes = sorted({dtype for part in parts for dtype in part})
    return {dtype: sum(part.get(dtype, 0.0) for part in parts) for dtype in dtypes}


def _passes(model: OpModel) -> int:
    """The FLOPs of the forward and backward pass, in forward passes."""
    if not model.runs_backward:
        return 1
    if model.op_class == "attention":
        return 3
    return 1 + sum(port.has_gradient for port in model.inputs[:2])
