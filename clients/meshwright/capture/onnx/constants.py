"""Constant folding of ONNX models: shapes, axes, scalars and values computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

# chosen: covers shapes, lists of axes and position tables; larger tensors are weights
_LARGEST = 4096


def small_array(tensor: onnx.TensorProto) -> Array | None:
    """The values of a small tensor; None for a large tensor and for external data."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    if int(np.prod(tensor.dims, dtype=np.int64)) > _LARGEST:
        return None
    return np.asarray(onnx.numpy_helper.to_array(tensor))


def fold_node(
    node: onnx.NodeProto,
    known: Mapping[str, Array],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> list[Array] | None:
    """The results of a node with constant inputs; None where it cannot be fold_node."""
    if not all(name in known for name in node.input if name) or node.op_type.startswith("Random"):
        return None
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [node],
            "one",
            [onnx.helper.make_value_info(n, onnx.TypeProto()) for n in node.input if n],
            [onnx.helper.make_value_info(n, onnx.TypeProto()) for n in node.output if n],
        ),
        opset_imports=opsets,
    )
    try:
        results = ReferenceEvaluator(model).run(None, {n: known[n] for n in node.input if n})
    except Exception:  # the evaluator documents no exception types
        return None
    arrays = [np.asarray(result) for result in results]
    return arrays if all(array.size <= _LARGEST for array in arrays) else None
