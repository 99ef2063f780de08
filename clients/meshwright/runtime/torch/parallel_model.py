"""Parallel models: one rank's part of a model under a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist

from meshwright.capture.interpreter import KERNELS
from meshwright.capture.interpreter.torch_operator import operator_of
from meshwright.runtime.program import StageProgram
from meshwright.runtime.ranks import loaded, loaded_by
from meshwright.runtime.torch.autocast import casts_of_graph
from meshwright.runtime.torch.batches import Batches
from meshwright.runtime.torch.checkpoint import distributed, loading, saving
from meshwright.runtime.torch.checkpoint.loading import Check, Loaded
from meshwright.runtime.torch.checkpoint.shards import ShardId
from meshwright.runtime.torch.collective_log import Record
from meshwright.runtime.torch.collectives import TorchCollectives
from meshwright.runtime.torch.groups import StageGroups
from meshwright.runtime.torch.heartbeat import Pulse
from meshwright.runtime.torch.job import Job
from meshwright.runtime.torch.module_check import ModuleCheck
from meshwright.runtime.torch.module_check.parameter_check import check_parameters
from meshwright.runtime.torch.parameters import Parameters, aliases_of
from meshwright.runtime.torch.pipeline import run_step
from meshwright.runtime.torch.stage_module import TrainedStage
from meshwright.runtime.torch.step_reporting import Observing
from meshwright.runtime.torch.transport import Transport
from meshwright.schema import Graph, InvalidInput
from meshwright.schema.rank_strategy import RankStage, RankStrategy
from meshwright.stages.planned_stage import PlannedStage

T = torch.Tensor
Form = Literal["safetensors", "distributed"]


class Trained(Job):
    """One rank's part of a model. Use it as a context manager, or close it.

    strategy     the strategy of the rank; its `dataset` states what the rank loads
    record       the log of collectives
    fallen_back  the ops that run whole although the plan shards them, with the reason
    why_plain    the reason for which parameters are plain tensors; empty if they are DTensors
    module_check the method that compared the module with the plan's graph
    """

    def __init__(
        self,
        module: torch.nn.Module,
        strategy: RankStrategy,
        graph: Graph,
        *,
        groups: Callable[[], StageGroups],
        close: Callable[[], None],
        pulse: Pulse,
        check: Callable[[], ModuleCheck],
        observing: Observing | None = None,
    ) -> None:
        device = next(module.parameters()).device
        super().__init__(device, close=close, pulse=pulse, observing=observing)
        self.strategy = strategy
        self.graph = graph
        self.record = Record()
        self._shapes = graph.instantiate(strategy.symbols)
        self._batches = Batches(strategy, graph, self._shapes)
        self._aliases = aliases_of(module)
        self._buffers = _buffers(graph, module)
        self._replaced = _dtypes(graph, module)
        programs = _programs(strategy, graph)
        self.fallen_back: Mapping[str, str] = {
            op: why for program in programs.values() for op, why in program.fallen_back.items()
        }
        check_parameters(graph, self._shapes, module)
        self.module_check = check()
        stage_groups = groups()
        self._seed = self._seed_of_first_rank()
        self._stages = {
            stage.number: self._stage(programs[stage.number], stage, stage_groups)
            for stage in strategy.stages
        }
        self._transport = Transport(
            strategy,
            stage_groups.channels,
            {number: stage.collectives for number, stage in self._stages.items()},
            record=self.record,
            dtype_of=self._dtype_of,
            device=self._device,
        )
        self._place(module)
        plain = (stage.parameters.at_rest.why_plain for stage in self._stages.values())
        self.why_plain = next(filter(None, plain), "")

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """This rank's shards, for an optimizer, whose state is then sharded as planned."""
        return (shard for _, shard in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """This rank's shards with their names, stage by stage.

        A parameter of several stages has a shard in each; they are equal after every step.
        """
        for stage in self._stages.values():
            yield from stage.parameters.shards.items()

    def whole(self, name: str) -> T:
        """The whole parameter, gathered from all ranks. All ranks must call it."""
        number = self._holder(name)
        stage = self._stages.get(number)
        with self._pulse.guard():
            value = None if stage is None else stage.parameters.whole(name)
            return self._from_stage(number, value, self._shapes[name], self._dtype_of(name))

    def whole_gradient(self, name: str) -> T | None:
        """The whole gradient of a parameter; None if it has none. All ranks must call it."""
        number = self._holder(name)
        stage = self._stages.get(number)
        with self._pulse.guard():
            gradient = None if stage is None else stage.parameters.whole_gradient(name)
            has = torch.tensor(gradient is not None, device=self._device)
            if not self._from_stage(number, None if stage is None else has, (), torch.bool):
                return None
            return self._from_stage(number, gradient, self._shapes[name], self._dtype_of(name))

    def save(
        self,
        folder: str | Path,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
        form: Form = "safetensors",
    ) -> None:
        """Write a checkpoint to a shared folder. All ranks must call it.

        The previous checkpoint in the folder stays until the new one is complete. `extra` is JSON
        that `load` returns. The form `distributed` is that of torch.distributed.checkpoint. Raises
        CheckpointError on all ranks if one fails.
        """
        write = saving.save if form == "safetensors" else distributed.save
        values = saving.plain_json(extra or {})
        with self._pulse.guard():
            write(Path(folder), self.strategy, self._shards(), optimizer, values)

    def load(
        self,
        source: str | Path,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        names: Mapping[str, str] | None = None,
        check: Check = "sizes",
    ) -> Loaded:
        """Load a checkpoint of this plan or another one, or whole tensors in safetensors files.

        `names` maps parameters to their names in the files, if they differ. The check `digests`
        reads all files once more, some on each rank. Raises CheckpointError on all ranks if one
        fails.
        """
        known = {
            name: (names[name],) if names and name in names else aliases
            for name, aliases in self._aliases.items()
        }
        with self._pulse.guard():
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
        """This rank's slice of a whole batch: the slices of all microbatches, concatenated."""
        return self._batches.slice(batch)

    def step(self, **batch: T) -> T:
        """Run the forward and backward passes of all microbatches.

        Returns the loss, and adds gradients to the parameters. `batch` is the result of `slice`.
        Raises RankLost on all other ranks if a rank is lost, and PlanError in an autocast region
        that the plan lacks.
        """
        parts = self._batches.microbatches(batch)

        def sources(number: int, microbatch: int) -> dict[str, T]:
            loaded = self._stages[number].program.loaded
            inputs = {name: parts[name][microbatch] for name in loaded}
            return {**self._buffers, **inputs}

        with casts_of_graph(self.graph, self._device), self._pulse.guard():
            if self._observing is not None:
                self._observing.begin_step()
            run_step(self.strategy, self._stages, self._transport, sources)
            return self._loss()

    def _loss(self) -> T:
        """The loss over all ranks."""
        assert self.graph.loss is not None
        number, total = self.strategy.loss_stage, None
        stage = self._stages.get(number)
        if stage is not None:
            total = torch.stack(stage.losses).sum() * self._loss_share
            partial = tuple(stage.program.planned.at_rest(self.graph.loss).partial)
            total = stage.collectives.all_reduce(total, partial, self.graph.loss, "report")
        return self._from_stage(number, total, (), self._dtype_of(self.graph.loss))

    def _from_stage(
        self, number: int, value: T | None, shape: tuple[int, ...], dtype: torch.dtype
    ) -> T:
        """Broadcast a tensor from the first rank of a stage to all ranks."""
        if value is None:
            value = torch.empty(shape, dtype=dtype, device=self._device)
        if len(self.strategy.sites) > 1:
            dist.broadcast(value, src=self.strategy.sites[number].ranks_from)
        return value

    @property
    def _loss_share(self) -> float:
        """The weight of one microbatch in the loss of a step."""
        return 1 / self.strategy.microbatches if self.strategy.gradients == "mean" else 1.0

    def _stage(self, program: StageProgram, stage: RankStage, groups: StageGroups) -> TrainedStage:
        collectives = TorchCollectives(stage, groups.of_stages[stage.number], self.record)
        is_last = stage.number == self.strategy.loss_stage
        return TrainedStage(
            program,
            collectives,
            Parameters(program.planned, collectives, self._device.type),
            sends=sent_by(self.strategy, stage.number),
            loss=self.graph.loss if is_last else None,
            loss_share=self._loss_share,
            sizes=self.strategy.symbols,
            replaced=self._replaced,
            device=self._device,
            seed=self._seed,
        )

    def _place(self, module: torch.nn.Module) -> None:
        """Broadcast the first rank's parameters and slice them, so that seeds need not be equal."""
        parameters = dict(module.named_parameters(remove_duplicate=False))
        for name in dict.fromkeys(name for site in self.strategy.sites for name in site.parameters):
            value = parameters[name].detach().clone(memory_format=torch.contiguous_format)
            dist.broadcast(value, src=0)
            for stage in self._stages.values():
                if name in stage.program.planned.parameters:
                    stage.parameters.place(name, value, like=parameters[name])

    def _shards(self) -> dict[ShardId, torch.nn.Parameter]:
        """The shards of all stages of this rank, for checkpoints."""
        return {
            ShardId(name, number): shard
            for number, stage in self._stages.items()
            for name, shard in stage.parameters.shards.items()
        }

    def _holder(self, name: str) -> int:
        """The number of the first stage with a parameter."""
        for number, site in enumerate(self.strategy.sites):
            if name in site.parameters:
                return number
        raise InvalidInput(f"the plan has no parameter {name!r}")

    def _dtype_of(self, name: str) -> torch.dtype:
        dtype = self.graph.tensor(name).dtype
        result: torch.dtype = self._replaced.get(dtype) or getattr(torch, dtype)
        return result


def _programs(strategy: RankStrategy, graph: Graph) -> dict[int, StageProgram]:
    """The programs of a rank's stages, by number."""
    planned = {
        stage.number: PlannedStage(graph, stage.planned, strategy.symbols)
        for stage in strategy.stages
    }
    # operators without a canonical kind run on shards by their own rule
    operators = {op.kind for op in graph.ops if op.rule is not None and operator_of(op.kind)}
    kinds = KERNELS.keys() | operators
    has = loaded_by(list(planned.values()))
    return {
        number: StageProgram(
            stage,
            kinds,
            has={name: layout for name, (_, layout) in has.items() if name in loaded(stage)},
            kept=sent_by(strategy, number),
            order=strategy.order,
        )
        for number, stage in planned.items()
    }


def sent_by(strategy: RankStrategy, number: int) -> tuple[str, ...]:
    """The tensors that a stage sends to the next one."""
    return tuple(
        transfer.tensor
        for transfer in strategy.transfers
        if (transfer.what, transfer.source) == ("value", number)
    )


def _buffers(graph: Graph, module: torch.nn.Module) -> dict[str, T]:
    """The values of the graph's buffers and constants in the module."""
    buffers = dict(module.named_buffers(remove_duplicate=False))
    names = [t.name for t in graph.tensors if t.role in ("buffer", "constant")]
    return {name: buffers[name].detach() for name in names if name in buffers}


def _dtypes(graph: Graph, module: torch.nn.Module) -> dict[str, torch.dtype]:
    """The replacements of the graph's dtypes by those of the module's parameters.

    With parameters in float64, every float is float64.
    """
    planned: dict[str, str] = {
        tensor.name: tensor.dtype for tensor in graph.tensors if tensor.role == "parameter"
    }
    parameters = dict(module.named_parameters(remove_duplicate=False))
    replaced = {
        dtype: parameters[name].dtype for name, dtype in planned.items() if name in parameters
    }
    if torch.float64 in replaced.values():
        replaced |= dict.fromkeys(("float32", "bfloat16", "float16"), torch.float64)
    return replaced
