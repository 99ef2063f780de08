"""A model as one rank trains it under a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import torch

from meshwright.capture.interpreter import KERNELS
from meshwright.runtime.program import Program
from meshwright.runtime.stage import PlannedStage
from meshwright.runtime.torch import distributed, loading, saving
from meshwright.runtime.torch.collectives import Collectives
from meshwright.runtime.torch.forward import Forward
from meshwright.runtime.torch.loading import Check, Loaded
from meshwright.runtime.torch.observing import Observing
from meshwright.runtime.torch.parameters import Parameters, aliases_of, check_module
from meshwright.runtime.torch.record import Record
from meshwright.schema import Graph, InvalidInput
from meshwright.schema.rank_strategy import RankStrategy
from meshwright.schema.sizes import symbols_in

T = torch.Tensor
Form = Literal["safetensors", "distributed"]


class Trained:
    """One rank's share of a model. Use it in a `with`, or close it.

    strategy: what the rank does, `dataset` what it loads. record: the collectives that ran.
    fallen_back: ops that are run whole though the plan shards them, with the reason. why_plain:
    why parameters are no DTensors, where they are none.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        strategy: RankStrategy,
        graph: Graph,
        *,
        collectives: Callable[[Record], Collectives],
        close: Callable[[], None],
        observing: Observing | None = None,
    ) -> None:
        self.strategy = strategy
        self.graph = graph
        self.record = Record()
        self._close = close
        self._observing = observing
        planned = PlannedStage(graph, strategy.stages[0].planned, strategy.symbols)
        self._program = Program(planned, KERNELS)
        self.fallen_back: Mapping[str, str] = self._program.fallen_back
        check_module(planned, module)
        self._collectives = collectives(self.record)
        self._parameters = Parameters(planned, self._collectives, module)
        self._device = next(module.parameters()).device
        self.why_plain = self._parameters.at_rest.why_plain
        self._aliases = aliases_of(module)
        self._buffers = _buffers(graph, module)
        self._replaced = _dtypes(graph, module)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the process groups that were made for it."""
        if self._observing is not None:
            self._observing.close()
        self._close()

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """This rank's shards, for an optimizer: its state is then sharded as planned."""
        return iter(self._parameters.shards.values())

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """The same with their names."""
        return iter(self._parameters.shards.items())

    def whole(self, name: str) -> T:
        """A parameter put together from all ranks, which all have to ask for it."""
        return self._parameters.whole(name)

    def whole_gradient(self, name: str) -> T | None:
        """Its gradient, the same way; None where it has none."""
        return self._parameters.whole_gradient(name)

    def save(
        self,
        folder: str | Path,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
        form: Form = "safetensors",
    ) -> None:
        """Write a checkpoint, all ranks together, to a folder that all of them see.

        What was saved there before stays until this is whole. extra: JSON that `load` gives back.
        form: `distributed` writes one of torch.distributed.checkpoint. CheckpointError on all ranks
        where one fails.
        """
        write = saving.save if form == "safetensors" else distributed.save
        kept = saving.plain_json(extra or {})
        write(Path(folder), self.strategy, self._parameters.shards, optimizer, kept)

    def load(
        self,
        source: str | Path,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        names: Mapping[str, str] | None = None,
        check: Check = "sizes",
    ) -> Loaded:
        """Take up a checkpoint of this plan or another one, or whole tensors in safetensors files.

        names: what parameters are called there, where otherwise. check: `digests` reads all files
        once more, some on each rank. CheckpointError on all ranks where one fails.
        """
        known = {
            name: (names[name],) if names and name in names else aliases
            for name, aliases in self._aliases.items()
        }
        return loading.load(
            Path(source),
            self.strategy,
            self._parameters.shards,
            self._parameters.at_rest,
            optimizer,
            names=known,
            check=check,
        )

    def slice(self, batch: Mapping[str, T]) -> dict[str, T]:
        """This rank's share of a whole batch: of every microbatch, one behind the other."""
        found = {}
        for own in self.strategy.dataset:
            if own.tensor not in batch:
                raise InvalidInput(f"the batch has no {own.tensor!r}, which the model reads")
            dim = self._batch_dim(own.tensor)
            pieces = []
            for piece in self._microbatches(batch[own.tensor], dim):
                for d, (shards, shard) in enumerate(zip(own.num_shards, own.shard_id, strict=True)):
                    piece = piece.chunk(shards, dim=d)[shard] if shards > 1 else piece
                pieces.append(piece)
            found[own.tensor] = pieces[0] if dim is None else torch.cat(pieces, dim=dim)
        return found

    def step(self, **batch: T) -> T:
        """Forward and backward of all microbatches: the loss, and gradients in the parameters.

        batch: this rank's share of every input and label, as `slice` gives it.
        """
        if self._observing is not None:
            self._observing.begin_step()
        values = self._parameters.spread()
        losses = []
        count = self.strategy.microbatches
        share = 1 / count if self.strategy.gradients == "mean" else 1.0
        for number in range(count):
            with self._device:  # where ops make tensors of nothing
                loss = self._forward(values, batch, number)
            torch.autograd.backward(loss * share)
            losses.append(loss.detach())
        self._parameters.reduce()
        return self._reported(torch.stack(losses).sum() * share)

    def _forward(self, values: Mapping[str, T], batch: Mapping[str, T], number: int) -> T:
        sources = dict(self._buffers)
        for own in self.strategy.dataset:
            if own.tensor not in batch:
                raise InvalidInput(f"step got no {own.tensor!r}, which the model reads")
            given = batch[own.tensor]
            dim = self._batch_dim(own.tensor)
            sources[own.tensor] = self._microbatches(given, dim)[number]
            self._check_share(own.tensor, sources[own.tensor], own.num_shards)
        assert self.graph.loss is not None
        forward = Forward(
            self._program,
            self._collectives,
            sources=sources,
            parameters=values,
            take=self._parameters.take,
            replaced=self._replaced,
        )
        return forward.run(self.strategy.symbols)[self.graph.loss]

    def _reported(self, loss: T) -> T:
        """The loss over all ranks."""
        assert self.graph.loss is not None
        partial = self._program.planned.at_rest(self.graph.loss).partial
        return self._collectives.all_reduce(loss, tuple(partial), self.graph.loss, "report")

    def _microbatches(self, given: T, dim: int | None) -> list[T]:
        count = self.strategy.microbatches
        if dim is None:
            return [given] * count
        if given.shape[dim] % count:
            raise InvalidInput(
                f"{given.shape[dim]} rows cannot be cut into {count} equal microbatches"
            )
        return list(given.chunk(count, dim=dim))

    def _batch_dim(self, name: str) -> int | None:
        shape = self.graph.tensor(name).shape
        return next(
            (
                d
                for d, size in enumerate(shape)
                if isinstance(size, str) and "batch" in symbols_in(size)
            ),
            None,
        )

    def _check_share(self, name: str, given: T, ways: tuple[int, ...]) -> None:
        whole = self._program.planned.shapes[name]
        expected = tuple(size // way for size, way in zip(whole, ways, strict=True))
        if tuple(given.shape) != expected:
            raise InvalidInput(
                f"{name!r} has the shape {list(given.shape)} in a microbatch of this rank; its "
                f"share of {list(whole)} is {list(expected)}"
            )


def _buffers(graph: Graph, module: torch.nn.Module) -> dict[str, T]:
    """Values of the graph's buffers and constants that the module has."""
    own = dict(module.named_buffers(remove_duplicate=False))
    names = [t.name for t in graph.tensors if t.role in ("buffer", "constant")]
    return {name: own[name].detach() for name in names if name in own}


def _dtypes(graph: Graph, module: torch.nn.Module) -> dict[str, torch.dtype]:
    """The graph's dtypes that run as others: that of the parameters as the module's, and in float64
    every float."""
    held: dict[str, str] = {
        tensor.name: tensor.dtype for tensor in graph.tensors if tensor.role == "parameter"
    }
    own = dict(module.named_parameters(remove_duplicate=False))
    found = {dtype: own[name].dtype for name, dtype in held.items() if name in own}
    if torch.float64 in found.values():
        found |= dict.fromkeys(("float32", "bfloat16", "float16"), torch.float64)
    return found
