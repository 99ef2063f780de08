"""Parts of tensors along one factor of a sharding rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from meshwright.schema import Factor
from meshwright.schema.notation import Term

T = torch.Tensor


class FactorCut:
    """Parts of tensors along one factor of a rule, whose dims are products of factors."""

    def __init__(self, factor: Factor, sizes: Mapping[Factor, int]) -> None:
        self.factor = factor
        self.sizes = sizes

    def parts(
        self, tensors: Sequence[T], terms: Sequence[Term], start: int, length: int
    ) -> list[T]:
        return [
            self.part(tensor, term, start, length)
            for tensor, term in zip(tensors, terms, strict=True)
        ]

    def part(self, tensor: T, term: Term, start: int, length: int) -> T:
        dim = self._dim(term)
        if dim is None:
            return tensor
        lengths = [self._length(f, length) for place in term for f in place[0]]
        return (
            tensor.reshape(self._split(term))
            .narrow(dim, start, length)
            .reshape(self._merged(term, lengths))
        )

    def joined(self, parts: Sequence[T], term: Term) -> T:
        """The concat of two parts, or their sum where the factor is not in the term."""
        dim = self._dim(term)
        if dim is None:
            return parts[0] + parts[1]
        split = []
        for part in parts:
            lengths = self._split(term)
            lengths[dim] = -1
            split.append(part.reshape(lengths))
        lengths = [self.sizes[f] for place in term for f in place[0]]
        return torch.cat(split, dim).reshape(self._merged(term, lengths))

    def _dim(self, term: Term) -> int | None:
        """The position of the factor among the factors of a term."""
        position = 0
        for place in term:
            for factor in place[0] or (None,):
                if factor == self.factor:
                    return position
                position += 1
        return None

    def _split(self, term: Term) -> list[int]:
        return [
            size
            for place in term
            for size in ([self.sizes[f] for f in place[0]] if place[0] else [1])
        ]

    def _length(self, factor: Factor, length: int) -> int:
        return length if factor == self.factor else self.sizes[factor]

    def _merged(self, term: Term, lengths: Sequence[int]) -> list[int]:
        """The lengths of the dims, from those of all factors in order."""
        rest = iter(lengths)
        return [math.prod(next(rest) for _ in place[0]) for place in term]
