"""Batches as one rank reads them: its share of every input and label, microbatch by microbatch."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from meshwright.runtime.ordered import Turn, Turns
from meshwright.runtime.torch.turns import turned
from meshwright.schema import Graph, InvalidInput
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.sizes import symbols_in

T = torch.Tensor


class Batches:
    """shapes: of tensors in one microbatch."""

    def __init__(
        self, strategy: RankStrategy, graph: Graph, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.strategy = strategy
        self._graph = graph
        self._shapes = shapes

    def slice(self, batch: Mapping[str, T]) -> dict[str, T]:
        """This rank's share of a whole batch: of every microbatch, one behind the other."""
        found = {}
        for own in self.strategy.dataset:
            if own.tensor not in batch:
                raise InvalidInput(f"the batch has no {own.tensor!r}, which the model reads")
            dim = self._batch_dim(own.tensor)
            pieces = []
            for piece in self._cut(turned(batch[own.tensor], self._turns(own.tensor)), dim):
                for d, (shards, shard) in enumerate(zip(own.num_shards, own.shard_id, strict=True)):
                    piece = piece.chunk(shards, dim=d)[shard] if shards > 1 else piece
                pieces.append(piece)
            found[own.tensor] = pieces[0] if dim is None else torch.cat(pieces, dim=dim)
        return found

    def _turns(self, name: str) -> Turns:
        """Sequences of the whole batch into the order in which they are loaded."""
        return {
            dim.dim: Turn(order.size, order.chunks, is_back=False)
            for order in self.strategy.order
            for dim in order.loaded
            if dim.tensor == name
        }

    def microbatches(self, batch: Mapping[str, T]) -> dict[str, list[T]]:
        """The microbatches of all that this rank loads."""
        found = {}
        for own in self.strategy.dataset:
            if own.tensor not in batch:
                raise InvalidInput(f"step got no {own.tensor!r}, which the model reads")
            found[own.tensor] = self._cut(batch[own.tensor], self._batch_dim(own.tensor))
            self._check_share(own.tensor, found[own.tensor][0], own.num_shards)
        return found

    def _cut(self, given: T, dim: int | None) -> list[T]:
        count = self.strategy.microbatches
        if dim is None:
            return [given] * count
        if given.shape[dim] % count:
            raise InvalidInput(
                f"{given.shape[dim]} rows cannot be cut into {count} equal microbatches"
            )
        return list(given.chunk(count, dim=dim))

    def _batch_dim(self, name: str) -> int | None:
        shape = self._graph.tensor(name).shape
        return next(
            (
                d
                for d, size in enumerate(shape)
                if isinstance(size, str) and "batch" in symbols_in(size)
            ),
            None,
        )

    def _check_share(self, name: str, given: T, ways: tuple[int, ...]) -> None:
        whole = self._shapes[name]
        expected = tuple(size // way for size, way in zip(whole, ways, strict=True))
        if tuple(given.shape) != expected:
            raise InvalidInput(
                f"{name!r} has the shape {list(given.shape)} in a microbatch of this rank; its "
                f"share of {list(whole)} is {list(expected)}"
            )
