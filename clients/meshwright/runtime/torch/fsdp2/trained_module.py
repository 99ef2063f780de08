"""Trained modules: the user's module under a plan, carried out by PyTorch's own parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from meshwright.launch_options.module_strategy import ModuleStrategy
from meshwright.runtime.torch.fsdp2.apply import (
    REPLICAS,
    SHARDS,
    TENSOR,
    apply_strategy,
    device_mesh,
)
from meshwright.runtime.torch.fsdp2.checkpoint import load_checkpoint, save_checkpoint
from meshwright.runtime.torch.fsdp2.label_count import label_count
from meshwright.runtime.torch.fsdp2.microbatch_forward import MicrobatchForward
from meshwright.runtime.torch.fsdp2.placed_modules import Flow, flow_that_runs
from meshwright.runtime.torch.fsdp2.rows import row_batches
from meshwright.runtime.torch.fsdp2.scalar_gradients import ScalarGradients
from meshwright.runtime.torch.heartbeat import Pulse
from meshwright.runtime.torch.job import Job
from meshwright.runtime.torch.module_check import ModuleCheck
from meshwright.runtime.torch.module_check.parameter_check import check_parameters
from meshwright.runtime.torch.step_reporting import Observing
from meshwright.schema import Graph
from meshwright.schema.rank_strategy import RankStrategy

T = torch.Tensor
_LOG = logging.getLogger(__name__)


class TrainedModule(Job):
    """A module under a plan. Use it as a context manager, or close it.

    module       the user's module; its parameters are DTensors, its forward is unchanged
    strategy     the plan in the terms of PyTorch's parts
    flow         how tensors pass between tensor-parallel modules; None without them
    module_check the method that compared the module with the plan's graph
    """

    def __init__(
        self,
        module: nn.Module,
        strategy: ModuleStrategy,
        rank_strategy: RankStrategy,
        graph: Graph,
        *,
        close: Callable[[], None],
        pulse: Pulse,
        check: Callable[[], ModuleCheck],
        meet: Callable[[], None],
        observing: Observing | None = None,
    ) -> None:
        device = next(module.parameters()).device
        super().__init__(device, close=close, pulse=pulse, observing=observing)
        self.module = module
        self.strategy = strategy
        self._microbatches = rank_strategy.microbatches
        self._is_mean = rank_strategy.gradients == "mean"
        check_parameters(graph, graph.instantiate(rank_strategy.symbols), module)
        self.module_check = check()
        meet()
        self.mesh = device_mesh(strategy, self._device)
        groups = [self.mesh.get_group(name) for name in (REPLICAS, SHARDS, TENSOR)]
        pulse.aborts(groups)
        self._ways = strategy.replicas * strategy.shards
        replica, shard = (self.mesh.get_local_rank(name) for name in (REPLICAS, SHARDS))
        part = replica * strategy.shards + shard
        self._batches = row_batches(rank_strategy, graph, part, self._ways)
        self._ignores_labels = any("ignore_index" in op.attrs for op in graph.ops)
        self._labels = label_count(graph) if strategy.reduction == "mean" else None
        self._sizes = {
            name: size // self._ways if name == "batch" else size
            for name, size in rank_strategy.symbols.items()
        }
        self._forward = MicrobatchForward(graph, self._device.type, strategy.placements)
        self.flow: Flow | None = None
        if strategy.tensor > 1:
            self.flow = flow_that_runs(
                module, strategy.placements, graph, self.mesh[TENSOR], self._sizes
            )
        self._parts = apply_strategy(module, strategy, self.flow, graph, self.mesh)
        self._scalars = ScalarGradients(
            module.parameters(),
            [self.mesh.get_group(name) for name in (REPLICAS, SHARDS)],
            is_mean=strategy.reduction != "sum",
        )
        self._seed()

    def log_differences(self) -> None:
        """Log what differs from the plan, or from one process."""
        if self.module_check.reason:
            _LOG.warning("the module and the plan's graph: %s", self.module_check.reason)
        if self._labels is None and self.strategy.reduction == "mean" and self._ignores_labels:
            _LOG.warning(
                "the loss is more than one mean over labels: it is averaged over ranks and "
                "microbatches. If these ignore different numbers of labels, it is not that of one "
                "process"
            )

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the module: DTensors, of which this rank holds its shards."""
        return self.module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters of the module with their names."""
        return self.module.named_parameters()

    def slice(self, batch: Mapping[str, T]) -> dict[str, T]:
        """This rank's rows of a whole batch, of all microbatches one behind the other."""
        return self._batches.slice(batch)

    def step(self, **batch: T) -> T:
        """Run the forward and backward passes of all microbatches.

        Returns the loss over all ranks, and adds gradients to the parameters. `batch` is the result
        of `slice`. Raises RankLost on all other ranks if a rank is lost.
        """
        parts = self._batches.microbatches(batch)
        total = torch.zeros((), device=self._device)
        with self._pulse.guard():
            if self._observing is not None:
                self._observing.begin_step()
            inputs = [
                {name: own[number] for name, own in parts.items()}
                for number in range(self._microbatches)
            ]
            with self._scalars.reduced():
                for weight, of_one in zip(self._weights(inputs), inputs, strict=True):
                    self._say_last(of_one is inputs[-1])
                    total = total + self._run(of_one, weight)
            return self._over_ranks(total)

    def clip_grad_norm_(self, max_norm: float) -> T:
        """Scale the gradients to a norm of at most `max_norm`, and return their norm before.

        The norm is that of the whole gradients, over all ranks.
        """
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        with self._pulse.guard():
            norms = [torch.linalg.vector_norm(gradient) for gradient in gradients]
            whole = [n.full_tensor() if isinstance(n, DTensor) else n for n in norms]
            norm: T = torch.linalg.vector_norm(torch.stack(whole))
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            local = gradient.to_local() if isinstance(gradient, DTensor) else gradient
            local.mul_(scale)
        return norm

    def save(
        self,
        folder: str | Path,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a checkpoint with torch.distributed.checkpoint. All ranks must call it.

        Its names are those of the module's own `state_dict`. The previous checkpoint in the folder
        stays until the new one is complete. `extra` is JSON that `load` returns. Raises
        CheckpointError if it cannot be written.
        """
        with self._pulse.guard():
            save_checkpoint(Path(folder), self.module, optimizer, extra or {})

    def load(
        self, folder: str | Path, optimizer: torch.optim.Optimizer | None = None
    ) -> dict[str, Any]:
        """Load a checkpoint of `save`, by this plan or another one, on any number of ranks.

        Returns its `extra`. Raises CheckpointError if there is none, or it is of another module.
        """
        with self._pulse.guard():
            return load_checkpoint(Path(folder), self.module, optimizer)

    def _weights(self, inputs: Sequence[Mapping[str, T]]) -> Iterable[T | float]:
        """The weight of this rank's loss in each microbatch of a step.

        Of a mean over labels the weights make the mean over all labels of the step.
        """
        whole = 1.0 if self._is_mean else float(len(inputs))
        if self._labels is None:
            return [whole / len(inputs)] * len(inputs)
        counts = torch.stack([self._labels.of(own, self._sizes) for own in inputs]).double()
        of_all = self._over_ranks(counts.sum())
        return whole * counts / of_all.clamp(min=1 / self._ways)

    def _run(self, inputs: Mapping[str, T], weight: T | float) -> T:
        """The passes of one microbatch; returns its weighted loss."""
        with self._forward.context():
            loss = self._forward.loss(self.module, inputs)
            loss = torch.nan_to_num(loss) if weight == 0 else loss * weight
            torch.autograd.backward(loss)
        local = loss.detach()
        return local.full_tensor() if isinstance(local, DTensor) else local

    def _say_last(self, is_last: bool) -> None:
        """Tell the parts whether this is the last microbatch of the step."""
        for part in self._parts:
            if self.strategy.shards == 1:
                part.set_requires_gradient_sync(is_last, recurse=False)
            part.set_requires_all_reduce(is_last, recurse=False)
            if self.strategy.keeps_parameters:
                part.set_reshard_after_backward(is_last, recurse=False)

    def _over_ranks(self, loss: T) -> T:
        """The loss over the data-parallel ranks."""
        for name in (REPLICAS, SHARDS):
            dist.all_reduce(loss, group=self.mesh.get_group(name))
        if self.strategy.reduction == "sum":
            return loss
        return loss / self._ways

    def _seed(self) -> None:
        """Seed this rank for dropout: as the first rank, with an offset by its part."""
        part = (
            min(self.mesh[TENSOR].mesh.tolist()) if self.strategy.drops_alike else dist.get_rank()
        )
        torch.manual_seed(self._seed_of_first_rank() + part)
