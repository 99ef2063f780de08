"""What PyTorch keeps for the backward pass of one op of a graph, or of all of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from meshwright.capture import interpret
from meshwright.schema import Graph, Op


def kept_bytes(
    run: Callable[[], Any], besides: Collection[torch.Tensor]
) -> tuple[int, dict[str, torch.Tensor]]:
    """Bytes of all storages that autograd keeps while `run` runs, but for those of `besides`.

    Also what `run` gave. A tensor that several ops keep, and views of it, count once.
    """
    kept: dict[int, int] = {}
    held = []  # while it is held no other tensor takes its place in memory

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        held.append(tensor)
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        made = run()
    for tensor in besides:
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(kept.values()), made


def kept_of_op(
    graph: Graph,
    op: Op,
    values: Mapping[str, torch.Tensor],
    with_gradient: Collection[str],
    besides: Collection[str],
) -> int:
    """Bytes that PyTorch keeps of one op, run by itself on `values`."""
    leaves = {
        name: values[name].detach().clone().requires_grad_(name in with_gradient)
        for name in dict.fromkeys(op.inputs)
    }
    tensors = [
        tensor.model_copy(
            update={"role": "input" if tensor.name in leaves else "activation"}
            | {"shape": tuple(values[tensor.name].shape)}
        )
        for tensor in graph.tensors
        if tensor.name in {*op.inputs, *op.outputs}
    ]
    one = Graph(tensors=tuple(tensors), ops=(op,), outputs=op.outputs)
    free = [leaves[name] for name in leaves if name in besides]
    return kept_bytes(lambda: interpret(one, leaves, slots="stated"), free)[0]
