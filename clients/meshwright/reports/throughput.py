"""Throughput of a plan: samples and tokens per second, and model FLOPs utilization."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.schema import Graph, Plan, Setup, Topology


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput by the predicted step. None: the graph, the topology or the FLOPs are unknown.

    `model_flops` are those of a step on all devices. `utilization` is the model FLOPs utilization
    (MFU), 0 to 1: the time of the model FLOPs at the peak rates of the devices, over the step.
    """

    devices: int
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    model_flops: float | None = None
    utilization: float | None = None

    def per_device(self, rate_per_s: float | None) -> float | None:
        """A rate of all devices, for one of them."""
        return None if rate_per_s is None else rate_per_s / self.devices


def throughput_of(
    plan: Plan, graph: Graph | None, topology: Topology | None, setup: Setup
) -> Throughput:
    """The throughput of a plan.

    The peak rate of a dtype is the dense rate of the data sheet (`Device.peak_flops_per_s`).
    """
    devices = sum({stage.ranks_from: stage.mesh.device_count for stage in plan.stages}.values())
    step_s = plan.cost.step_ns / 1e9
    symbols = symbols_of(graph, setup)
    samples_per_s = symbols["batch"] / step_s if "batch" in symbols and step_s else None
    has_tokens = samples_per_s is not None and "seq" in symbols
    return Throughput(
        devices=devices,
        samples_per_s=samples_per_s,
        tokens_per_s=samples_per_s * symbols["seq"] if samples_per_s and has_tokens else None,
        model_flops=sum(plan.model_flops.values()) if plan.model_flops else None,
        utilization=_utilization(plan, topology, devices) if step_s else None,
    )


def symbols_of(graph: Graph | None, setup: Setup) -> dict[str, int]:
    """The symbol sizes of a step: the graph's, replaced by those of the setup."""
    symbols = {**(graph.symbols if graph else {}), **setup.symbols}
    if setup.global_batch is not None:
        symbols["batch"] = setup.global_batch
    return symbols


def _utilization(plan: Plan, topology: Topology | None, devices: int) -> float | None:
    if topology is None or not plan.model_flops:
        return None
    groups = topology.groups
    share = devices / topology.device_count  # a plan may leave out a group of a mixed cluster
    ideal_s = 0.0
    for dtype, flops in plan.model_flops.items():
        peak = sum(group.device_count * group.device.peak_flops_per_s(dtype) for group in groups)
        ideal_s += flops / (peak * share)
    return ideal_s / (plan.cost.step_ns / 1e9)
