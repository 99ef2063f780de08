"""Regions: the program of one rank of a group, with its own collectives, in a whole program.

Outside the region tensors are whole. Inside, the module runs on the shards of one rank and
communicates with `torch.distributed._functional_collectives` or `torch.ops._c10d_functional`. One
process runs the region for all ranks at once (`torch.vmap`), so that values and gradients are those
of the whole group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.distributed import _functional_collectives as functional
from torch.distributed import distributed_c10d
from torch.func import functional_call
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx

from meshwright.capture.group_collectives import GroupCollectives, RegionGroup
from meshwright.schema.errors import GraphError

T = torch.Tensor
_BATCHING = torch._C._functorch


class SpmdRegion(nn.Module):
    """The program of one rank of a group, as a module on whole tensors.

    build: returns the module of one rank; it is called once for each rank.
    size: the number of ranks. group: the name of their process group.
    parameters: glob of parameters and buffers -> the dim that the ranks share; others are equal on
    all ranks.
    inputs, outputs: the shared dim of each tensor of `forward`; None for a tensor that is equal on
    all ranks. outputs is a tuple where `forward` returns one.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        *,
        size: int,
        inputs: Sequence[int | None],
        outputs: int | Sequence[int | None] | None = None,
        parameters: Mapping[str, int] | None = None,
        group: str = "",
    ) -> None:
        super().__init__()
        if size < 1:
            raise GraphError(f"a region has {size} ranks. Use 1 or more")
        ranks = [build() for _ in range(size)]
        self._rank = (ranks[0],)  # not a submodule: its parameters are shards
        self._size, self._group = size, group
        self._inputs, self._outputs = tuple(inputs), outputs
        self._dim_of: dict[str, int | None] = {}
        self._traces: dict[Any, GraphModule] = {}
        tensors = [dict([*rank.named_parameters(), *rank.named_buffers()]) for rank in ranks]
        for glob in parameters or {}:
            if not any(fnmatchcase(name, glob) for name in tensors[0]):
                raise GraphError(
                    f"no parameter of the region matches {glob!r}. Use names like "
                    f"{', '.join(list(tensors[0])[:4])}"
                )
        for name, first in tensors[0].items():
            dims = [dim for glob, dim in (parameters or {}).items() if fnmatchcase(name, glob)]
            self._dim_of[name] = dim = dims[-1] if dims else None
            whole = first.detach()
            if dim is not None:
                whole = torch.cat([rank[name].detach() for rank in tensors], dim)
            _register(self, name, whole, first)

    def forward(self, *inputs: T) -> Any:
        if len(inputs) != len(self._inputs):
            raise GraphError(
                f"the region states {len(self._inputs)} inputs and got {len(inputs)}. State a dim "
                "or None for each"
            )
        names = list(self._dim_of)
        whole = [self.get_parameter_or_buffer(name) for name in names]
        if not any(isinstance(x, torch._subclasses.FakeTensor) or x.is_meta for x in inputs):
            return self._run(
                RegionGroup(self._size, self._group, is_traced=False), names, whole, inputs
            )
        key = tuple((tuple(x.shape), x.dtype, x.requires_grad) for x in (*whole, *inputs))
        if key not in self._traces:
            self._traces[key] = self._trace(names, whole, inputs)
        return Interpreter(self._traces[key]).run(*whole, *inputs)

    def get_parameter_or_buffer(self, name: str) -> T:
        path, _, last = name.rpartition(".")
        tensor: T = getattr(self.get_submodule(path), last)
        return tensor

    def _run(
        self, group: RegionGroup, names: Sequence[str], whole: Sequence[T], inputs: Any
    ) -> Any:
        """The results of all ranks, put together."""
        dims = [*(self._dim_of[name] for name in names), *self._inputs]
        rows = [
            x if dim is None else group.varying(_divided(x, dim, self._size), "shard")
            for x, dim in zip((*whole, *inputs), dims, strict=True)
        ]
        in_dims = (0, *(None if dim is None else 0 for dim in dims))
        numbers = torch.arange(self._size)  # vmap has an input with the dim in any case

        def rank(_: T, *tensors: T) -> Any:
            state = dict(zip(names, tensors[: len(names)], strict=True))
            with GroupCollectives(group), _collectives_of(self._size):
                results = functional_call(self._rank[0], state, tensors[len(names) :])
            if isinstance(results, torch.Tensor):
                return self._whole(group, results, self._output_dims(1)[0])
            dims = self._output_dims(len(results))
            return tuple(self._whole(group, x, dim) for x, dim in zip(results, dims, strict=True))

        return torch.vmap(rank, in_dims=in_dims, out_dims=None, randomness="different")(
            numbers, *rows
        )

    def _output_dims(self, count: int) -> Sequence[int | None]:
        dims = [self._outputs] if self._outputs is None else self._outputs
        dims = [dims] if isinstance(dims, int) else dims
        if len(dims) != count:
            raise GraphError(
                f"the region states {len(dims)} outputs and returns {count}. State a dim or None "
                "for each"
            )
        return dims

    def _whole(self, group: RegionGroup, x: T, dim: int | None) -> T:
        """A result of all ranks."""
        if not _BATCHING.is_batchedtensor(x):
            if dim is None:
                return x
            raise GraphError(
                f"an output of the region is stated as shared along dim {dim}, and is equal on all "
                "ranks. State None for it"
            )
        if dim is None:
            raise GraphError(
                "an output of the region differs among the ranks. State the dim that they share in "
                "`outputs`, or reduce it by a collective"
            )
        rows: T = _BATCHING.get_unwrapped(x)
        rows = rows.movedim(_BATCHING.maybe_get_bdim(x), 0).movedim(0, dim)
        return group.shared(rows.flatten(dim, dim + 1), "unshard")

    def _trace(self, names: Sequence[str], whole: Sequence[T], inputs: Sequence[T]) -> GraphModule:
        """The region on meta tensors like these, in a thread without the modes of this trace."""
        group = RegionGroup(self._size, self._group, is_traced=True)
        shapes = [(tuple(x.shape), x.dtype) for x in (*whole, *inputs)]
        found: list[GraphModule] = []
        failures: list[Exception] = []

        def trace() -> None:
            try:
                with torch.device("meta"):
                    empty = [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
                    found.append(
                        make_fx(
                            lambda *xs: self._run(group, names, xs[: len(names)], xs[len(names) :])
                        )(*empty)
                    )
            except Exception as failure:  # raised again below, in the thread of the caller
                failures.append(failure)

        thread = threading.Thread(target=trace)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]
        return found[0]


@contextmanager
def _collectives_of(size: int) -> Iterator[None]:
    """The functions of `_functional_collectives` without process groups, for groups of a size."""
    with (
        mock.patch.object(functional, "_resolve_group_name", lambda group, *_: str(group)),
        mock.patch.object(distributed_c10d, "_get_group_size_by_name", return_value=size),
        mock.patch.object(functional, "_maybe_wrap_tensor", lambda tensor: tensor),
    ):
        yield


def _divided(x: T, dim: int, size: int) -> T:
    """A whole tensor by rank: the group dim first."""
    if not -x.dim() <= dim < x.dim() or x.shape[dim] % size:
        raise GraphError(
            f"a tensor of shape {list(x.shape)} has no dim {dim} that {size} ranks can share. Use "
            f"a dim whose length is a multiple of {size}"
        )
    dim %= x.dim()
    shape = (*x.shape[:dim], size, x.shape[dim] // size, *x.shape[dim + 1 :])
    return x.reshape(shape).movedim(dim, 0)


def _register(region: nn.Module, name: str, whole: T, shard: T) -> None:
    """Register a whole tensor under the name of the shard."""
    *path, last = name.split(".")
    module = region
    for part in path:
        if part not in dict(module.named_children()):
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    if isinstance(shard, nn.Parameter):
        module.register_parameter(last, nn.Parameter(whole, requires_grad=shard.requires_grad))
    else:
        module.register_buffer(last, whole)
