"""Collectives of a user's program as operations on a group dim.

A region is the program of one rank of a group (`meshwright.capture.spmd_region`). A tensor that
differs among the ranks has a leading group dim; a tensor that is equal on all ranks has none:

    all_reduce       the sum (mean, maximum, minimum, product) over the group dim
    all_gather       the group dim becomes the outer part of dim 0
    reduce_scatter   the sum, whose dim 0 is divided into a group dim and the rest
    all_to_all       the group dim and the outer part of dim 0 change places
    broadcast        the row of the source

The dim is a batch dim of `torch.vmap`. The operator `meshwright::group` marks it for the planner,
which shards it over as many devices as the group has, and ends it after a collective.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from meshwright.schema.errors import GraphError

T = torch.Tensor
_BATCHING = torch._C._functorch
_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")
_REDUCTIONS: Mapping[str, Callable[[T], T]] = {
    "sum": lambda x: x.sum(0),
    "avg": lambda x: x.mean(0),
    "max": lambda x: x.amax(0),
    "min": lambda x: x.amin(0),
    "product": lambda x: x.prod(0),
}


@torch.library.custom_op("meshwright::group", mutates_args=())
def _group(x: T, collective: str, size: int, varies: bool) -> T:
    """A copy of a tensor. varies: whether its dim 0 is a group dim."""
    del collective, size, varies
    return x.clone()


@_group.register_fake
def _(x: T, collective: str, size: int, varies: bool) -> T:
    del collective, size, varies
    return torch.empty_like(x)


@dataclass(frozen=True)
class RegionGroup:
    """A group of ranks. name: of its process group. is_traced: whether group dims are marked."""

    size: int
    name: str
    is_traced: bool

    def varying(self, x: T, collective: str) -> T:
        """A tensor whose dim 0 is a group dim, marked for the planner."""
        return self._marked(x, collective, True)

    def shared(self, x: T, collective: str) -> T:
        """A tensor that is equal on all ranks, marked for the planner."""
        return self._marked(x, collective, False)

    def _marked(self, x: T, collective: str, varies: bool) -> T:
        if not self.is_traced:
            return x
        marked: T = torch.ops.meshwright.group(x, collective, self.size, varies)
        return marked


class GroupCollectives(TorchFunctionMode):
    """Mode that runs the collectives of a group on the current batch dim of `torch.vmap`."""

    def __init__(self, group: RegionGroup) -> None:
        super().__init__()
        self.group = group
        self.level = int(_BATCHING.maybe_current_level() or 0)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        namespace, _, name = str(func).partition(".")
        if namespace == "c10d":
            raise GraphError(
                f"c10d.{name} writes to its argument. Use the collective of "
                "torch.distributed._functional_collectives instead"
            )
        if namespace not in _NAMESPACES:
            return func(*args, **(kwargs or {}))
        return self._collective(name.partition(".")[0], *args, **(kwargs or {}))

    def _collective(self, name: str, x: T, *args: Any, **kwargs: Any) -> T:
        if name == "wait_tensor":
            return x
        named = _arguments(name, args, kwargs)
        if named.get("group_name", self.group.name) != self.group.name:
            raise GraphError(
                f"{name} runs in the group {named['group_name']!r}, and the region is of the group "
                f"{self.group.name!r}. Use one region for each group"
            )
        if named.get("group_size", self.group.size) != self.group.size:
            raise GraphError(
                f"{name} has a group of {named['group_size']} ranks, and the region has "
                f"{self.group.size}. Use the size of the region"
            )
        if name == "all_reduce":
            return self.group.shared(self._reduced(self._rows(x), named["reduce_op"]), name)
        if name == "all_gather_into_tensor":
            rows = self._rows(x)
            return self.group.shared(rows if rows.dim() == 1 else rows.flatten(0, 1), name)
        if name == "reduce_scatter_tensor":
            whole = self._reduced(self._rows(x), named["reduce_op"])
            part = self._part(name, whole, 0)
            return self._varying(whole.reshape(self.group.size, part, *whole.shape[1:]), name)
        if name == "all_to_all_single":
            return self._exchanged(self._rows(x), named)
        if name == "broadcast":
            source = self._rows(x)[int(named["src"]) % self.group.size]
            return self.group.shared(source, name)
        raise GraphError(
            f"a region has no {name}. Use all_reduce, all_gather_into_tensor, "
            "reduce_scatter_tensor, all_to_all_single or broadcast"
        )

    def _exchanged(self, rows: T, named: Mapping[str, Any]) -> T:
        size, part = self.group.size, self._part("all_to_all_single", rows, 1)
        for field in ("output_split_sizes", "input_split_sizes"):
            splits = [int(length) for length in named.get(field) or ()]
            if splits and set(splits) != {part}:
                raise GraphError(
                    f"all_to_all_single has the {field} {splits}. Use {size} equal parts of {part}"
                )
        parts = rows.reshape(size, size, part, *rows.shape[2:])
        return self._varying(parts.transpose(0, 1).flatten(1, 2), "all_to_all_single")

    def _part(self, name: str, x: T, dim: int) -> int:
        length, size = (x.shape[dim] if x.dim() > dim else 1), self.group.size
        if length % size:
            raise GraphError(
                f"{name}: dim 0 of length {length} cannot be divided among {size} ranks. Use a "
                f"multiple of {size}"
            )
        return length // size

    def _reduced(self, rows: T, reduction: str) -> T:
        known = _REDUCTIONS.get(reduction.lower())
        if known is None:
            raise GraphError(f"a reduction {reduction!r} is unknown. Use {', '.join(_REDUCTIONS)}")
        return known(rows)

    def _rows(self, x: T) -> T:
        """The tensors of all ranks, by group dim."""
        if not (_BATCHING.is_batchedtensor(x) and _BATCHING.maybe_get_level(x) == self.level):
            return x.expand(self.group.size, *x.shape)
        return _BATCHING.get_unwrapped(x).movedim(_BATCHING.maybe_get_bdim(x), 0)

    def _varying(self, rows: T, collective: str) -> T:
        marked = self.group.varying(rows, collective)
        batched: T = _BATCHING._add_batch_dim(marked, 0, self.level)
        return batched


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "all_reduce": ("reduce_op", "group_name"),
    "all_gather_into_tensor": ("group_size", "group_name"),
    "reduce_scatter_tensor": ("reduce_op", "group_size", "group_name"),
    "all_to_all_single": ("output_split_sizes", "input_split_sizes", "group_name"),
    "broadcast": ("src", "group_name"),
}


def _arguments(name: str, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(_FIELDS.get(name, ()), args, strict=False)) | dict(kwargs)
