"""A lower bound on the step of every configuration that a request allows, planned or not.

The time of an op is at least its work on one device, divided by its devices, and a launch for each
pass; communication is free. With

    T    ns of one microbatch's work on one device, L    its launches, of N devices in p equal ranks
    w    = T p / N + L, the same on one rank

some rank has at least the mean of the work, and one microbatch passes through all ranks:

    step >= m w / p        step >= w without the weights' half

With one stage per rank and whole passes (1f1b, gpipe), stage s waits for the forward passes of the
stages before it, and these wait for its last backward pass: step >= sum of w_r, r < s, + m w_s. The
largest of these is least if w_s falls by 1 - 1/m from stage to stage, so for any cuts:

    step >= w / (1 - (1 - 1/m)^p)

On groups of several kinds of devices op o takes t_ok on kind k, and for any prices y_k of a
device's time that add up to 1 over all devices

    step >= m sum over o of  min over k of y_k t_ok

(the dual of the assignment of ops; prices here are proportional to 1 / sum over o of t_ok). The
bound ignores memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meshwright.schema import Request
from meshwright_solver.pipeline.configurations import Configuration, configurations
from meshwright_solver.pipeline.graph_work import GraphWork
from meshwright_solver.pipeline.work import Work
from meshwright_solver.stage.microbatches import microbatch_counts

_WHOLE_PASSES = ("1f1b", "gpipe")


def request_bound_ns(request: Request, works: GraphWork) -> float | None:
    """The lower bound of a step over all configurations that a request allows, one stage included;
    None without a proof. works: of the request's graph."""
    wanted, alone = request.pipeline, list[int]()
    if wanted.ranks in (None, 1) and not wanted.cuts:
        alone = microbatch_counts(request)
    several = () if wanted.ranks == 1 else configurations(request, works.anatomy)
    return least_step_ns(request, works, several, alone)


def least_step_ns(
    request: Request,
    works: GraphWork,
    wanted: Iterable[Configuration],
    alone: Iterable[int] = (),
) -> float | None:
    """The lower bound of a step; None without a proof (offload to hosts, or no valid run).

    alone: numbers of microbatches without a pipeline.
    """
    if request.constraints.offload != "none":
        return None
    groups = request.topology.groups
    bounds = []
    for count in alone:
        for group, work in zip(groups, works.at(count), strict=False):
            bounds.append(count * (work.busy_ns / group.device_count + work.launches_ns))
    for configuration in wanted:
        of_groups = works.at(configuration.microbatches)
        if len(of_groups) > 1:
            devices = [group.device_count for group in groups]
            bounds.append(configuration.microbatches * _shared_ns(of_groups, devices))
        elif of_groups:
            bounds.append(_of_ranks_ns(of_groups[0], configuration, groups[0].device_count))
    return min(bounds, default=None)


def _of_ranks_ns(work: Work, configuration: Configuration, devices: int) -> float:
    """The lower bound on equal ranks of devices of one kind."""
    each = devices / configuration.ranks
    rank_ns = work.busy_ns / each + work.launches_ns
    if configuration.schedule in _WHOLE_PASSES:
        return rank_ns / (1 - (1 - 1 / configuration.microbatches) ** configuration.ranks)
    passes = work.passes(each)
    chain_ns = passes.forward_ns + passes.inputs_ns
    return max(configuration.microbatches * rank_ns / configuration.ranks, chain_ns)


def _shared_ns(works: Sequence[Work], devices: Sequence[int]) -> float:
    """The lower bound of one microbatch on groups of several kinds of devices."""
    rates = np.array([1 / max(work.busy_ns, 1e-9) for work in works])
    prices = rates / (rates * np.array(devices)).sum()
    of_ops = [work.of_ops.sum(axis=1) for work in works]
    priced = np.array([price * ns for price, ns in zip(prices, of_ops, strict=True)])
    return float(priced.min(axis=0).sum())
