"""A bound on the memory of every plan from the request alone: parameters and their states.

    the least bytes of a parameter or cache = elements * (value + gradient + optimizer state)

The bound is over all devices together, whatever the sharding. A gradient and a state count for
trained parameters, unless they may be on hosts. An embedding table counts nothing if it may be on
hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from meshwright.schema import DTYPE_BYTES, Graph, Infeasible, Request, Tensor
from meshwright_solver.problem.sized_graph import FLOATS, with_gradient

_Shapes = Mapping[str, tuple[int, ...]]


def parameter_shortfall(request: Request) -> Infeasible | None:
    """The proof that no sharding and no batch fits; None where parameters alone do not show it."""
    graph, setup, topology = request.graph, request.setup, request.topology
    shapes = graph.instantiate(setup.symbols)
    memory_bytes = sum(group.device.memory_bytes * group.device_count for group in topology.groups)
    available_bytes = int(memory_bytes // topology.device_count * setup.usable_memory)
    tensors = [tensor for tensor in graph.tensors if tensor.role in ("parameter", "cache")]
    if _most_bytes(request, tensors, shapes) // topology.device_count <= available_bytes:
        return None
    least_bytes = _least_bytes(request, tensors, shapes)
    needed_bytes = least_bytes // topology.device_count
    if needed_bytes <= available_bytes:
        return None
    has = "a device has, on average," if topology.beside else f"{topology.device.name} has"
    return Infeasible(
        constraint="memory",
        detail=(
            "parameters, gradients and optimizer state alone, with the master copy where there is "
            f"one, need {needed_bytes / 2**30:.1f} GiB on a "
            f"device even when split over all {topology.device_count} devices; "
            f"{has} {available_bytes / 2**30:.1f} GiB after the reserve. "
            f"Use at least {-(-least_bytes // max(1, available_bytes))} devices, a smaller model "
            "or narrower states."
        ),
        needed_bytes=needed_bytes,
        available_bytes=available_bytes,
    )


def _most_bytes(request: Request, tensors: list[Tensor], shapes: _Shapes) -> int:
    """The same if all of them were read and trained, which is quick to compute."""
    setup = request.setup
    gradient_bytes = DTYPE_BYTES[setup.gradient_dtype]
    element_bytes = {
        dtype: DTYPE_BYTES[dtype] + gradient_bytes + setup.optimizer_element_bytes(dtype)
        for dtype in {tensor.dtype for tensor in tensors}
    }
    return sum(prod(shapes[tensor.name]) * element_bytes[tensor.dtype] for tensor in tensors)


def _least_bytes(request: Request, tensors: list[Tensor], shapes: _Shapes) -> int:
    graph, setup = request.graph, request.setup
    offload = request.constraints.offload if request.topology.host is not None else "none"
    may_leave_states = offload in ("optimizer", "auto")
    may_leave_tables = offload in ("embeddings", "auto")
    is_training = setup.phase == "training"
    trained = with_gradient(graph, graph.topological_order()) if is_training else frozenset()
    tables = _lookup_tables(graph) if may_leave_tables else frozenset()
    read = {name for op in graph.ops for name in op.inputs} - tables
    sparse = {*request.constraints.sparse_gradients}
    gradient_bytes = DTYPE_BYTES[setup.gradient_dtype]
    least_bytes = 0
    for tensor in tensors:
        if tensor.name not in read:
            continue
        element_bytes = DTYPE_BYTES[tensor.dtype]
        if tensor.name in trained and not may_leave_states:
            element_bytes += setup.optimizer_element_bytes(tensor.dtype)
            element_bytes += 0 if tensor.name in sparse else gradient_bytes
        least_bytes += prod(shapes[tensor.name]) * element_bytes
    return least_bytes


def _lookup_tables(graph: Graph) -> frozenset[str]:
    """Parameters that may be embedding tables: one op alone reads them, together with indices."""
    dtypes = {tensor.name: tensor.dtype for tensor in graph.tensors}
    readers = Counter(name for op in graph.ops for name in op.inputs)
    return frozenset(
        name
        for op in graph.ops
        for name in op.inputs
        if readers[name] == 1 and any(dtypes[other] not in FLOATS for other in op.inputs)
    )
