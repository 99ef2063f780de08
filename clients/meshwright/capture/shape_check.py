"""Check of a captured graph: at its own sizes, every op makes the shapes that the graph states.

A trace has one size for each symbol. A size that depends on a symbol in a way that symbolic sizes
do not express stays the number of the trace, and fits no other size.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch

from meshwright.capture.aten.call import torch_dtype
from meshwright.capture.interpreter import arithmetic, layers, results_of, run_of, shape
from meshwright.schema import Graph, Op
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import DType

_KERNELS = frozenset({**arithmetic.KERNELS, **shape.KERNELS, **layers.KERNELS})
Shapes = list[tuple[int, ...]]


def check_shapes(graph: Graph) -> None:
    """Raise GraphError for the first op that makes another shape at the sizes of the graph.

    Ops run on the meta device. Unknown kinds, attention, experts and recurrences are not checked.
    """
    shapes = graph.instantiate({})
    dtypes = {tensor.name: tensor.dtype for tensor in graph.tensors}
    known: set[str] = set()
    for op in graph.ops:
        if op.kind not in _KERNELS:
            continue
        given = [(shapes[name], dtypes[name]) for name in op.inputs]
        stated = [(shapes[name], dtypes[name]) for name in op.outputs]
        key = json.dumps([op.kind, dict(op.attrs), given, stated], default=str)
        if key in known:
            continue
        known.add(key)
        wanted = [size for size, _ in stated]
        made = _made(graph, op, given, stated)
        if made is not None and made != wanted:
            sizes = ", ".join(f"{name} = {size}" for name, size in graph.symbols.items())
            raise GraphError(
                f"a size of {op.name!r} ({op.kind}) does not follow from the symbols: at {sizes} "
                f"the shape is {_text(made)}, and the graph states {_text(wanted)}. The module "
                "uses the size in a way that holds at the traced length alone, such as a table "
                "that is cut from its end"
            )


def _made(
    graph: Graph,
    op: Op,
    given: Sequence[tuple[tuple[int, ...], DType]],
    stated: Sequence[tuple[tuple[int, ...], DType]],
) -> Shapes | None:
    """The shapes that the kernel of an op makes; None where it does not run on the meta device."""
    try:
        call = run_of(
            op,
            [torch.empty(size, dtype=torch_dtype(dtype), device="meta") for size, dtype in given],
            shapes=[size for size, _ in stated],
            dtypes=[dtype for _, dtype in stated],
            sizes=graph.symbols,
            replaced={dtype: torch_dtype(dtype) for _, dtype in stated},
        )
        with torch.device("meta"):
            return [tuple(result.shape) for result in results_of(call)]
    except Exception:  # kernels raise errors of any class on the meta device
        return [] if op.kind in shape.KERNELS else None


def _text(shapes: Shapes) -> str:
    return ", ".join(str(list(size)) for size in shapes) or "none: the op cannot run"
