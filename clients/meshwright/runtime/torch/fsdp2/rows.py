"""Rows of a batch that one rank loads. Tensor-parallel ranks load the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.runtime.torch.batches import Batches
from meshwright.schema import Graph
from meshwright.schema.rank_strategy import DatasetSlice, RankStrategy
from meshwright.schema.sizes import batch_dim


def row_batches(rank_strategy: RankStrategy, graph: Graph, part: int, ways: int) -> Batches:
    """The batches of the data-parallel rank `part` of `ways`."""

    def slices() -> Iterator[DatasetSlice]:
        for entry in rank_strategy.dataset:
            shape = graph.tensor(entry.tensor).shape
            shards, ids = [1] * len(shape), [0] * len(shape)
            dim = batch_dim(shape)
            if dim is not None:
                shards[dim], ids[dim] = ways, part
            yield DatasetSlice(tensor=entry.tensor, num_shards=tuple(shards), shard_id=tuple(ids))

    by_rows = rank_strategy.model_copy(update={"dataset": tuple(slices())})
    return Batches(by_rows, graph, graph.instantiate(rank_strategy.symbols))
