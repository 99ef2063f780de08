"""Recognition of attention masks that depend on positions only.

The pass evaluates the subgraph of a mask and compares its values. The evaluated size is larger than
every number in the subgraph: 4,100 positions show a window of 4,096.
"""

from __future__ import annotations

from meshwright.capture.names import name_values
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema.errors import GraphError

_BATCH = 2
_MARGIN = 7  # chosen: positions beyond the largest number of the subgraph
_LARGEST = 8192  # chosen: a mask of 64 million elements; beyond it, masks stay as they are


def recognize_masks(program: Program) -> None:
    """Replace a causal mask by the attr `causal`, and drop a mask that hides nothing."""
    known: dict[Value, str | None] = {}
    for node in program.nodes:
        if node.kind != "attention" or len(node.inputs) != 4 or node.attrs["causal"]:
            continue
        mask = node.inputs[3]
        if mask not in known:
            known[mask] = _mask_kind(program, mask)
        if known[mask] is not None:
            node.inputs = node.inputs[:3]
            node.attrs = {**node.attrs, "causal": known[mask] == "causal"}


def _mask_kind(program: Program, mask: Value) -> str | None:
    # only programs from torch use this pass
    import torch

    from meshwright.capture.interpreter import interpret

    part = program.upstream([mask])
    if part.sources:
        return None
    name_values(part)
    sizes = _sizes(part, mask)
    if sizes is None:
        return None
    try:
        graph = part.to_graph(name="mask", symbols=sizes)
        table = interpret(graph, {}, symbols=sizes)[mask.name]
    except (GraphError, RuntimeError, NotImplementedError):
        return None
    visible = table if table.dtype == torch.bool else table == 0
    if visible.all():
        return "open"
    lower = torch.ones(visible.shape[-2:], dtype=torch.bool).tril()
    if visible.shape[-2] == visible.shape[-1] and bool((visible == lower).all()):
        hidden = table[..., ~lower]
        large = table.dtype == torch.bool or bool((hidden < -1e4).all())
        return "causal" if large else None
    return None


def _sizes(part: Program, mask: Value) -> dict[str, int] | None:
    """Small symbol values that are large enough to identify the mask."""
    primes = part.witness.primes
    if "seq" not in primes:
        fits = max(mask.shape[-2:]) <= _LARGEST
        return dict.fromkeys(primes, _BATCH) if fits else None
    seq = max((n for node in part.nodes for n in _numbers(node, part.witness)), default=0) + _MARGIN
    if seq > _LARGEST:
        return None
    return {name: seq if name == "seq" else _BATCH for name in primes}


def _numbers(node: Node, witness: Witness) -> list[int]:
    """Integers in the attrs that concern positions, without symbolic sizes."""
    numbers: list[int] = []
    waiting = [value for key, value in node.attrs.items() if key not in ("dim", "dims", "tensors")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        elif value == int(value) and isinstance(witness.size(abs(int(value))), int):
            numbers.append(abs(int(value)))
    return numbers
