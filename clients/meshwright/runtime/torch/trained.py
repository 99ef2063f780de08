"""A model as one rank trains it under a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import torch
import torch.distributed as dist
from typing_extensions import Self

from meshwright.capture.interpreter import KERNELS
from meshwright.runtime.program import Program
from meshwright.runtime.ranks import loaded, loaded_by
from meshwright.runtime.stage import PlannedStage
from meshwright.runtime.torch.batches import Batches
from meshwright.runtime.torch.checkpoint import distributed, loading, saving
from meshwright.runtime.torch.checkpoint.loading import Check, Loaded
from meshwright.runtime.torch.checkpoint.shards import ShardId
from meshwright.runtime.torch.collectives import Collectives
from meshwright.runtime.torch.groups import Groups
from meshwright.runtime.torch.observing import Observing
from meshwright.runtime.torch.parameters import Parameters, aliases_of, check_module
from meshwright.runtime.torch.pipeline import run_step
from meshwright.runtime.torch.pulse import Pulse
from meshwright.runtime.torch.record import Record
from meshwright.runtime.torch.trained_stage import TrainedStage
from meshwright.runtime.torch.transport import Transport
from meshwright.schema import Graph, InvalidInput
from meshwright.schema.rank_strategy import RankStage, RankStrategy

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
        groups: Callable[[], Groups],
        close: Callable[[], None],
        pulse: Pulse,
        observing: Observing | None = None,
    ) -> None:
        self.strategy = strategy
        self.graph = graph
        self.record = Record()
        self._close = close
        self._pulse = pulse
        self._observing = observing
        self._shapes = graph.instantiate(strategy.symbols)
        self._batches = Batches(strategy, graph, self._shapes)
        self._device = next(module.parameters()).device
        self._aliases = aliases_of(module)
        self._buffers = _buffers(graph, module)
        self._replaced = _dtypes(graph, module)
        programs = _programs(strategy, graph)
        self.fallen_back: Mapping[str, str] = {
            op: why for own in programs.values() for op, why in own.fallen_back.items()
        }
        check_module(graph, self._shapes, module)
        made = groups()
        self._seed = self._of_first_rank(torch.initial_seed())
        self._stages = {
            own.number: self._stage(programs[own.number], own, made) for own in strategy.stages
        }
        self._transport = Transport(
            strategy,
            made.channels,
            {number: stage.collectives for number, stage in self._stages.items()},
            record=self.record,
            dtype_of=self._dtype_of,
            device=self._device,
        )
        self._place(module)
        plain = (stage.parameters.at_rest.why_plain for stage in self._stages.values())
        self.why_plain = next(filter(None, plain), "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._pulse.fail(error)
        self.close()

    def close(self) -> None:
        """Leave the process groups that were made for it."""
        if self._observing is not None:
            self._observing.close()
        self._close()

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """This rank's shards, for an optimizer: its state is then sharded as planned."""
        return (own for _, own in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """The same with their names, of this rank's stages; of a parameter that several of them
        hold the shards of each, equal after every step."""
        for stage in self._stages.values():
            yield from stage.parameters.shards.items()

    def whole(self, name: str) -> T:
        """A parameter put together from all ranks, which all have to ask for it."""
        number = self._holder(name)
        own = self._stages.get(number)
        with self._pulse.kept():
            found = None if own is None else own.parameters.whole(name)
            return self._from_stage(number, found, self._shapes[name], self._dtype_of(name))

    def whole_gradient(self, name: str) -> T | None:
        """Its gradient, the same way; None where it has none."""
        number = self._holder(name)
        own = self._stages.get(number)
        with self._pulse.kept():
            found = None if own is None else own.parameters.whole_gradient(name)
            has = torch.tensor(found is not None, device=self._device)
            if not self._from_stage(number, None if own is None else has, (), torch.bool):
                return None
            return self._from_stage(number, found, self._shapes[name], self._dtype_of(name))

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
        with self._pulse.kept():
            write(Path(folder), self.strategy, self._shards(), optimizer, kept)

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
        with self._pulse.kept():
            return loading.load(
                Path(source),
                self.strategy,
                self._shards(),
                {number: stage.parameters.at_rest for number, stage in self._stages.items()},
                optimizer,
                names=known,
                check=check,
            )

    def slice(self, batch: Mapping[str, T]) -> dict[str, T]:
        """This rank's share of a whole batch: of every microbatch, one behind the other."""
        return self._batches.slice(batch)

    def step(self, **batch: T) -> T:
        """Forward and backward of all microbatches: the loss, and gradients in the parameters.

        batch: this rank's share of every input and label, as `slice` gives it. RankLost, on all
        other ranks, where one dies.
        """
        parts = self._batches.microbatches(batch)

        def sources(number: int, microbatch: int) -> dict[str, T]:
            loaded = self._stages[number].program.loaded
            own = {name: parts[name][microbatch] for name in loaded}
            return {**self._buffers, **own}

        with self._pulse.kept():
            if self._observing is not None:
                self._observing.begin_step()
            run_step(self.strategy, self._stages, self._transport, sources)
            return self._reported()

    def _reported(self) -> T:
        """The loss over all ranks."""
        assert self.graph.loss is not None
        number, total = self.strategy.loss_stage, None
        own = self._stages.get(number)
        if own is not None:
            total = torch.stack(own.losses).sum() * self._loss_share
            partial = tuple(own.program.planned.at_rest(self.graph.loss).partial)
            total = own.collectives.all_reduce(total, partial, self.graph.loss, "report")
        return self._from_stage(number, total, (), self._dtype_of(self.graph.loss))

    def _from_stage(
        self, number: int, own: T | None, shape: tuple[int, ...], dtype: torch.dtype
    ) -> T:
        """What the first rank of a stage has, on all ranks."""
        if own is None:
            own = torch.empty(shape, dtype=dtype, device=self._device)
        if len(self.strategy.sites) > 1:
            dist.broadcast(own, src=self.strategy.sites[number].ranks_from)
        return own

    @property
    def _loss_share(self) -> float:
        """Of one microbatch in the loss of a step."""
        return 1 / self.strategy.microbatches if self.strategy.gradients == "mean" else 1.0

    def _stage(self, program: Program, own: RankStage, groups: Groups) -> TrainedStage:
        collectives = Collectives(own, groups.of_stages[own.number], self.record)
        is_last = own.number == self.strategy.loss_stage
        return TrainedStage(
            program,
            collectives,
            Parameters(program.planned, collectives, self._device.type),
            sends=sent_by(self.strategy, own.number),
            loss=self.graph.loss if is_last else None,
            loss_share=self._loss_share,
            sizes=self.strategy.symbols,
            replaced=self._replaced,
            device=self._device,
            seed=self._seed,
        )

    def _of_first_rank(self, seed: int) -> int:
        found = torch.tensor(seed % 2**63, dtype=torch.int64, device=self._device)
        dist.broadcast(found, src=0)
        return int(found)

    def _place(self, module: torch.nn.Module) -> None:
        """Give stages their parts of what the first rank has: equal everywhere, whatever the
        seeds."""
        own = dict(module.named_parameters(remove_duplicate=False))
        for name in dict.fromkeys(one for site in self.strategy.sites for one in site.parameters):
            value = own[name].detach().clone(memory_format=torch.contiguous_format)
            dist.broadcast(value, src=0)
            for stage in self._stages.values():
                if name in stage.program.planned.parameters:
                    stage.parameters.place(name, value, like=own[name])

    def _shards(self) -> dict[ShardId, torch.nn.Parameter]:
        """Of all stages of this rank, as checkpoints have them."""
        return {
            ShardId(name, number): shard
            for number, stage in self._stages.items()
            for name, shard in stage.parameters.shards.items()
        }

    def _holder(self, name: str) -> int:
        """The first stage with a parameter."""
        for number, site in enumerate(self.strategy.sites):
            if name in site.parameters:
                return number
        raise InvalidInput(f"the plan has no parameter {name!r}")

    def _dtype_of(self, name: str) -> torch.dtype:
        dtype = self.graph.tensor(name).dtype
        found: torch.dtype = self._replaced.get(dtype) or getattr(torch, dtype)
        return found


def _programs(strategy: RankStrategy, graph: Graph) -> dict[int, Program]:
    """Of a rank's stages, by number."""
    planned = {
        own.number: PlannedStage(graph, own.planned, strategy.symbols) for own in strategy.stages
    }
    has = loaded_by(list(planned.values()))
    return {
        number: Program(
            own,
            KERNELS,
            has={name: layout for name, (_, layout) in has.items() if name in loaded(own)},
            kept=sent_by(strategy, number),
            order=strategy.order,
        )
        for number, own in planned.items()
    }


def sent_by(strategy: RankStrategy, number: int) -> tuple[str, ...]:
    """What a stage makes for the next one."""
    return tuple(
        own.tensor for own in strategy.transfers if (own.what, own.source) == ("value", number)
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
