"""Batches on one rank: its slice of every input and label, microbatch by microbatch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from meshwright.runtime.ranks import LOADED
from meshwright.runtime.sequence_order import Turn, Turns
from meshwright.runtime.torch.sequence_reorder import turned
from meshwright.schema import Graph, InvalidInput
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.sizes import batch_dim

T = torch.Tensor


class Batches:
    """The batches of a rank. `shapes` are the shapes of whole tensors in one microbatch."""

    def __init__(
        self, strategy: RankStrategy, graph: Graph, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.strategy = strategy
        self._graph = graph
        self._shapes = shapes
        self._names = [tensor.name for tensor in graph.tensors if tensor.role in LOADED]

    def slice(self, batch: Mapping[str, T]) -> dict[str, T]:
        """This rank's slice of a whole batch: the slices of all microbatches, concatenated."""
        self._check_names(batch)
        slices = {}
        for entry in self.strategy.dataset:
            name = entry.tensor
            if name not in batch:
                raise InvalidInput(
                    f"the batch has no {name!r}, which the plan's graph {self._graph.id} reads; "
                    f"its keys are {', '.join(map(repr, batch)) or 'none'}. Add the key"
                )
            dim = batch_dim(self._graph.tensor(name).shape)
            places = list(zip(entry.num_shards, entry.shard_id, strict=True))
            pieces = []
            for piece in self._split(turned(batch[name], self._turns(name)), dim):
                for d, (shards, shard) in enumerate(places):
                    piece = piece.chunk(shards, dim=d)[shard] if shards > 1 else piece
                pieces.append(piece)
            slices[name] = pieces[0] if dim is None else torch.cat(pieces, dim=dim)
        return slices

    def _turns(self, name: str) -> Turns:
        """The permutations of a whole batch into the loaded order, by dim."""
        return {
            dim.dim: Turn(order.size, order.chunks, is_back=False)
            for order in self.strategy.order
            for dim in order.loaded
            if dim.tensor == name
        }

    def microbatches(self, batch: Mapping[str, T]) -> dict[str, list[T]]:
        """The microbatches of every input and label that this rank loads."""
        self._check_names(batch)
        microbatches = {}
        for entry in self.strategy.dataset:
            name = entry.tensor
            if name not in batch:
                raise InvalidInput(
                    f"step got no {name!r}, which the plan's graph {self._graph.id} reads; "
                    f"its keys are {', '.join(map(repr, batch)) or 'none'}. Add the key"
                )
            microbatches[name] = self._split(batch[name], batch_dim(self._graph.tensor(name).shape))
            self._check_share(name, microbatches[name][0], entry.num_shards)
        return microbatches

    def _check_names(self, batch: Mapping[str, T]) -> None:
        """Raise InvalidInput for a key that is no input of the plan's graph."""
        unknown = [name for name in batch if name not in self._names]
        if unknown:
            raise InvalidInput(
                f"the batch has the key {unknown[0]!r}, which the plan's graph {self._graph.id} "
                f"does not read; its inputs are {self._listed}. Remove the key, or capture the "
                "module with it and plan again"
            )

    @property
    def _listed(self) -> str:
        return ", ".join(map(repr, self._names))

    def _split(self, tensor: T, dim: int | None) -> list[T]:
        count = self.strategy.microbatches
        if dim is None:
            return [tensor] * count
        if tensor.shape[dim] % count:
            raise InvalidInput(
                f"{tensor.shape[dim]} rows cannot be cut into {count} equal microbatches"
            )
        return list(tensor.chunk(count, dim=dim))

    def _check_share(self, name: str, local: T, ways: tuple[int, ...]) -> None:
        whole = self._shapes[name]
        expected = tuple(size // way for size, way in zip(whole, ways, strict=True))
        if tuple(local.shape) != expected:
            raise InvalidInput(
                f"{name!r} has the shape {list(local.shape)} in a microbatch of this rank; its "
                f"share of {list(whole)} is {list(expected)}"
            )
