"""Evaluation of one op on random data, whole and in two parts along a factor of its rule.

A factor of a rule is independent if, with x cut into x1 and x2 along the factor,

    f(x, w) = concat(f(x1, w), f(x2, w))
    df/dx = concat of the gradients of both parts,  df/dw = their sum

for every input x that has the factor and every input w without it. Attributes stay those of the
whole op, as in a sharded run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from meshwright.capture.interpreter import results_of, run_of
from meshwright.capture.op_rules.factor_cut import FactorCut
from meshwright.schema import Factor, Op, ShardingRule, Tensor

T = torch.Tensor
Data = Literal["normal", "positive", "definite"]  # definite: symmetric matrices, positive

MOST_ELEMENTS = 2**25  # chosen: 256 MiB of float64
# chosen: of the largest element; dependent samples differ by far more
_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
_WIDE_TOLERANCE = 1e-5


class CannotEvaluate(Exception):
    """An op cannot be evaluated on the CPU; the message says why."""


@dataclass(frozen=True, slots=True)
class OpSample:
    """An op at small sizes.

    symbols: the values of the graph's symbols. has_gradient: whether its inputs depend on trained
    parameters, so that its backward pass is evaluated too.
    """

    op: Op
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    symbols: Mapping[str, int]
    has_gradient: bool

    def shapes(self, tensors: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tensor.dims(self.symbols) for tensor in tensors]

    def sizes(self, rule: ShardingRule) -> dict[Factor, int]:
        """The size of each factor; raises RuleError if the rule does not fit."""
        return rule.bind(self.shapes(self.inputs), self.shapes(self.outputs))


@dataclass(frozen=True, slots=True)
class _Results:
    outputs: list[T]
    seeds: list[T | None]  # gradients of the outputs, None for those without one
    gradients: list[T | None]


class SampleRun:
    """The whole op on random data of a seed; raises CannotEvaluate."""

    def __init__(self, sample: OpSample, *, seed: int, data: Data) -> None:
        self.sample = sample
        self._generator = torch.Generator().manual_seed(seed)
        count = sum(math.prod(shape) for shape in sample.shapes((*sample.inputs, *sample.outputs)))
        if count > MOST_ELEMENTS:
            raise CannotEvaluate(f"its tensors have {count:,} elements")
        failure = ""
        for wide in (torch.float64, None):
            self._wide = wide
            self.inputs = self._random_inputs(data)
            try:
                self.whole = self._results(self.inputs, None)
            except CannotEvaluate:
                raise
            except Exception as why:  # operators raise errors of any class
                failure = f"{type(why).__name__}: {' '.join(str(why).split())[:160]}"
                continue
            if all(bool(x.isfinite().all()) for x in self.whole.outputs):
                return
            failure = "its results are not finite"
        raise CannotEvaluate(failure)

    def difference(self, rule: ShardingRule, factor: Factor) -> str:
        """The first difference between the whole op and its parts along a factor, as a clause.

        Empty if the factor is independent. Raises RuleError if the rule does not fit the sample.
        """
        sizes = self.sample.sizes(rule)
        size = sizes[factor]
        if size < 2:
            return ""
        first = min((size // 2) | 1, size - 1)  # an odd length, so that pairs are cut
        terms = rule.parsed.inputs, rule.parsed.outputs
        cut = FactorCut(factor, sizes)
        parts = []
        for start, length in ((0, first), (first, size - first)):
            inputs = cut.parts(self.inputs, terms[0], start, length)
            seeds = [
                None if seed is None else cut.part(seed, term, start, length)
                for seed, term in zip(self.whole.seeds, terms[1], strict=True)
            ]
            try:
                results = self._results(inputs, seeds)
            except Exception as why:  # operators raise errors of any class
                return f"a part of it fails ({type(why).__name__})"
            wanted = cut.parts(self.whole.outputs, terms[1], start, length)
            for k, (got, want) in enumerate(zip(results.outputs, wanted, strict=True)):
                if not _is_close(got, want, self.whole.outputs[k]):
                    return f"its output {k} differs"
            parts.append(results)
        for k, whole in enumerate(self.whole.gradients):
            if whole is None:
                continue
            both = [part.gradients[k] for part in parts]
            got = cut.joined([gradient for gradient in both if gradient is not None], terms[0][k])
            if not _is_close(got, whole, whole):
                return f"the gradient of its input {k} differs"
        return ""

    def _results(self, inputs: Sequence[T], seeds: Sequence[T | None] | None) -> _Results:
        sample = self.sample
        leaves = [
            x.detach().clone().requires_grad_(x.is_floating_point() and sample.has_gradient)
            for x in inputs
        ]
        arguments = [x.clone() for x in leaves]
        with torch.enable_grad(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
            before = torch.get_rng_state()
            outputs = list(results_of(self._call(arguments)))
            if not torch.equal(before, torch.get_rng_state()):
                raise CannotEvaluate("it draws random numbers")
        if len(outputs) != len(sample.outputs):
            raise CannotEvaluate(f"it returns {len(outputs)} tensors")
        if seeds is None:
            self._check_shapes(outputs)
            seeds = [
                self._random(x.shape, x.dtype, "normal") if x.requires_grad else None
                for x in outputs
            ]
        return _Results(
            [x.detach() for x in outputs], list(seeds), _gradients(leaves, outputs, seeds)
        )

    def _call(self, arguments: list[T]) -> Any:
        sample = self.sample
        floats = {t.dtype for t in (*sample.inputs, *sample.outputs) if _is_float(t.dtype)}
        replaced = {} if self._wide is None else dict.fromkeys(floats, self._wide)
        return run_of(
            sample.op,
            arguments,
            shapes=sample.shapes(sample.outputs),
            dtypes=[tensor.dtype for tensor in sample.outputs],
            sizes=sample.symbols,
            replaced={str(name): dtype for name, dtype in replaced.items()},
        )

    def _check_shapes(self, outputs: Sequence[T]) -> None:
        made, stated = [tuple(x.shape) for x in outputs], self.sample.shapes(self.sample.outputs)
        if made != stated:
            raise CannotEvaluate(f"its outputs have the shapes {made}, the graph has {stated}")

    def _random_inputs(self, data: Data) -> list[T]:
        sample = self.sample
        shapes = sample.shapes(sample.inputs)
        # every index is below the length of every dim
        high = max(2, min((size for shape in shapes for size in shape if size > 1), default=2))
        inputs = []
        for tensor, shape in zip(sample.inputs, shapes, strict=True):
            dtype = getattr(torch, tensor.dtype, None)
            if dtype is None:
                raise CannotEvaluate(f"it reads a tensor of {tensor.dtype}")
            if dtype.is_floating_point or dtype.is_complex:
                inputs.append(self._random(shape, dtype, data))
            else:
                top = 2 if dtype is torch.bool else high
                drawn = torch.randint(0, top, shape, generator=self._generator, device="cpu")
                inputs.append(drawn.to(dtype))
        return inputs

    def _random(self, shape: Sequence[int], dtype: torch.dtype, data: Data) -> T:
        draw = torch.rand if data == "positive" else torch.randn
        drawn = draw(tuple(shape), generator=self._generator, dtype=torch.float64, device="cpu")
        if data == "positive":
            drawn = 0.1 + 0.8 * drawn
        if data == "definite" and len(shape) >= 2 and shape[-1] == shape[-2]:
            drawn = drawn @ drawn.mT + torch.eye(shape[-1], dtype=drawn.dtype, device="cpu")
        wide = self._wide if self._wide is not None and dtype.is_floating_point else None
        return drawn.to(wide or dtype)


def _gradients(
    leaves: Sequence[T], outputs: Sequence[T], seeds: Sequence[T | None]
) -> list[T | None]:
    """The gradient of each input; None for inputs that have none."""
    wanted = [x for x in leaves if x.requires_grad]
    sent = [(x, seed) for x, seed in zip(outputs, seeds, strict=True) if seed is not None]
    if not wanted or not sent:
        return [None] * len(leaves)
    received = torch.autograd.grad(
        [x for x, _ in sent], wanted, [seed for _, seed in sent], allow_unused=True
    )
    whole = iter(
        torch.zeros_like(x) if gradient is None else gradient
        for x, gradient in zip(wanted, received, strict=True)
    )
    return [next(whole) if x.requires_grad else None for x in leaves]


def _is_close(got: T, want: T, scale: T) -> bool:
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if not want.is_floating_point() and not want.is_complex():
        return bool(torch.equal(got, want))
    tolerance = _TOLERANCE.get(want.dtype, _WIDE_TOLERANCE)
    largest = float(scale.abs().max()) if scale.numel() else 0.0
    return want.numel() == 0 or float((got - want).abs().max()) <= tolerance * max(largest, 1e-30)


def _is_float(dtype: str) -> bool:
    return "float" in dtype
