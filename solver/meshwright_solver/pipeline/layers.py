"""The layers of a graph, by structure: the first and the last, and layers that differ a little.

1. A *block* begins at each position that the fewest large tensors cross, which in a network with
   residual connections is one: the stream. A transformer layer has a block for attention and
   another one for the feed-forward part.
2. Two blocks are alike in a share of the ops that read matrices, by kind, attributes and shapes (of
   all ops in a graph without such ops). Attention over a window is like attention over all
   positions; a mixture of experts is not like a dense part. Blocks without such ops do not count.
3. A layer is a number of consecutive blocks. Two adjacent layers belong together if half of their
   blocks are alike. A stack is as many such layers as possible. The number is the least with a
   stack that has almost half of the alike blocks of any stack: where mixtures and dense layers
   alternate, a layer has one of them. These blocks are about as exactly alike as those of other
   stacks: where all widths are equal, attention is a little like a feed-forward part. Its best
   stack has the most alike blocks in adjacent layers, then the fewest layers. So dense layers and
   mixtures behind them are layers of one stack, a first layer that reads the embedding is one too,
   and the embedding with the first attention is none.
4. What lies before and behind the longest stack is searched for others: an encoder has one, a
   decoder another one.

If the best stack may begin at several blocks (a norm behind the embedding is like the norm at the
end of a BERT layer), it begins at the last of them, with products rather than with a norm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from meshwright.schema import DTYPE_BYTES
from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.folding.fold import op_looks
from meshwright_solver.pipeline.stage_graph import Anatomy

_LEAST_LAYERS = 4  # chosen: fewer repeats are often chance
_LARGE = 0.4  # chosen: of the most frequent size; the stream may be half as wide as its casts
_LONG = 1 / _LEAST_LAYERS  # of all ops; an encoder's result crosses the whole decoder
_EXACT = 0.9  # chosen: where all widths are equal, attention is like a feed-forward part in 0.75
_ALIKE = 0.5  # chosen: attention is alike in dense layers and mixtures
_MATCHES = 0.45  # chosen: half, less the ends
_DIGITS = 9  # chosen: rounding of sums of shares


@lru_cache(maxsize=2)  # chosen: the graph at hand, which is asked for many times
def layer_begins(anatomy: Anatomy) -> IntArray:
    """Positions in `anatomy.order` at which layers begin; empty without repetition."""
    blocks = _Blocks(anatomy)
    begins = [blocks.begins[block] for block in blocks.layers(0, len(blocks.begins))]
    return np.array(begins, dtype=np.int64)


class _Stack(NamedTuple):
    """Adjacent layers of so many blocks each; the best of several is the largest.

    matches: blocks that are alike in adjacent layers. fewer: minus the number of layers. start: the
    first block. exactness: the mean share in which blocks of adjacent layers are alike, of those
    that are alike in half or more.
    """

    matches: float
    fewer: int
    start: int
    blocks: int
    exactness: float

    @property
    def begins(self) -> range:
        """The first block of every layer; it stops behind the last layer."""
        return range(self.start, self.start - self.fewer * self.blocks, self.blocks)


class _Blocks:
    """The blocks of a graph. begins: positions in `Anatomy.order`, the first is 0."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.begins = _block_begins(anatomy)
        self._anatomy = anatomy

    def layers(self, low: int, high: int) -> Iterator[int]:
        """The first block of every layer between two blocks, in order."""
        most = (high - low) // _LEAST_LAYERS
        stacks = [
            stack for blocks in range(1, most + 1) for stack in self._stacks(low, high, blocks)
        ]
        if not stacks:
            return
        enough = _MATCHES * max(stack.matches for stack in stacks)
        stacks = [stack for stack in stacks if stack.matches >= enough]
        exact = _EXACT * max(stack.exactness for stack in stacks)
        blocks = next(stack.blocks for stack in stacks if stack.exactness >= exact)
        best = max(stack for stack in stacks if stack.blocks == blocks)
        yield from self.layers(low, best.start)
        yield from best.begins
        yield from self.layers(best.begins.stop, high)

    def _stacks(self, low: int, high: int, blocks: int) -> Iterator[_Stack]:
        """The longest stacks of layers of so many blocks, one for each first block modulo these."""
        pairs = slice(low, high - blocks), slice(low + blocks, high)
        one = np.ones(blocks)
        alike = np.convolve(self._alike[pairs].diagonal(), one, "valid").round(_DIGITS)
        counted = np.convolve(np.maximum(*(self._counts[part] for part in pairs)), one, "valid")
        shares = self._alike[pairs].diagonal()
        mostly = shares >= _ALIKE
        exactly = np.convolve(np.where(mostly, shares, 0.0), one, "valid")
        counts = np.convolve(mostly, one, "valid")
        follows = (alike >= _ALIKE * counted) & (counted > 0)
        for phase in range(blocks):
            run = _longest_run(follows[phase::blocks])
            if len(run) + 1 >= _LEAST_LAYERS:
                start = low + phase + run.start * blocks
                matches, sums, count = (
                    float(values[phase::blocks][run.start : run.stop].sum())
                    for values in (alike, exactly, counts)
                )
                yield _Stack(matches, -(len(run) + 1), start, blocks, sums / max(count, 1.0))

    @cached_property
    def _counts(self) -> IntArray:
        """(blocks,): 1 for a block that counts."""
        return np.array([bool(kind) for kind in self._kinds], dtype=np.int64)

    @cached_property
    def _alike(self) -> FloatArray:
        """(blocks, blocks): the share in which two blocks are alike."""
        numbers: dict[tuple[int, ...], int] = {}
        of_block = [numbers.setdefault(kind, len(numbers)) for kind in self._kinds]
        counts = [Counter(kind) for kind in numbers]
        shared = [
            [(one & other).total() / max(one.total(), other.total(), 1) for other in counts]
            for one in counts
        ]
        return np.array(shared)[np.ix_(of_block, of_block)]

    @cached_property
    def _kinds(self) -> list[tuple[int, ...]]:
        """By block: the labels of its ops that count."""
        matrices = {
            tensor.name
            for tensor in self._anatomy.graph.tensors
            if tensor.role == "parameter" and len(tensor.shape) > 1
        }
        order = self._anatomy.order
        counts = np.array([not matrices.isdisjoint(op.inputs) for op in order], dtype=np.bool_)
        if not counts.any():
            counts[:] = True
        labels = op_looks(self._anatomy.graph, order, {})
        ends = [*self.begins[1:], len(order)]
        return [
            tuple(sorted(labels[begin:end][counts[begin:end]].tolist()))
            for begin, end in zip(self.begins, ends, strict=True)
        ]


def _block_begins(anatomy: Anatomy) -> list[int]:
    """Positions that the fewest large tensors cross; 0 is the first."""
    shapes = anatomy.graph.instantiate({})
    count = len(anatomy.order)
    lives = {name: (anatomy.made_at[name], last) for name, last in anatomy.last_read_at.items()}
    sizes = {
        name: prod(shapes[name]) * DTYPE_BYTES[anatomy.graph.tensor(name).dtype] for name in lives
    }
    if not sizes:
        return [0]
    ((usual, _),) = Counter(sizes.values()).most_common(1)
    change = np.zeros(count + 1, dtype=np.int64)
    for name, (made, last) in lives.items():
        if sizes[name] >= _LARGE * usual and last - made <= max(_LONG * count, 1):
            change[made + 1] += 1
            change[last + 1] -= 1
    crossing = np.cumsum(change)[1:count]
    for least in range(1, int(crossing.max(initial=0)) + 1):
        begins = np.flatnonzero(crossing <= least) + 1
        if len(begins) >= _LEAST_LAYERS:
            return [0, *begins.tolist()]
    return [0]


def _longest_run(flags: BoolArray) -> range:
    """The longest run of true flags, the last of equal ones."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0])))).tolist()
    runs = [range(first, stop) for first, stop in zip(edges[::2], edges[1::2], strict=True)]
    return max(reversed(runs), key=len, default=range(0))
