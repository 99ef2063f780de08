"""Values that a model knows before it runs: shapes, axes, scalars, what is computed of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]

# chosen: a shape, a list of axes or a table of positions; a weight is larger, or not looked at
_LARGEST = 4096


def small_array(tensor: onnx.TensorProto) -> Array | None:
    """What a tensor of few elements holds; None for a larger one and for one in another file."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    if int(np.prod(tensor.dims, dtype=np.int64)) > _LARGEST:
        return None
    return np.asarray(onnx.numpy_helper.to_array(tensor))


def evaluated(
    node: onnx.NodeProto,
    known: Mapping[str, Array],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> list[Array] | None:
    """The results of a node all of whose inputs are known; None for one that is not run here."""
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
        made = ReferenceEvaluator(model).run(None, {n: known[n] for n in node.input if n})
    except Exception:  # the reference runs no operator of other domains, and names no error
        return None
    arrays = [np.asarray(own) for own in made]
    return arrays if all(own.size <= _LARGEST for own in arrays) else None
