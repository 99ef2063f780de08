"""Pass durations of a stage with overlapped communication, in closed form.

For a pass over a microbatch, A_l is the time of activations on link l, and B_l the time of
parameters and gradients:

    path     critical path through work and activations (`critical_path.py`)
    least    max(path, max over l of A_l + B_l): every link has to move all of its traffic
    waits    sum over l of min(min(n_l rho_l, k_l) s_l / 2, B_l): each of n_l activations meets one
             of k_l buckets on the link with probability rho_l = B_l / (path - A_l), at most 1, and
             waits for the rest of it; s_l / 2 = sum of squares / (2 B_l), the mean residual service
             of queueing theory (Kleinrock 1975, Queueing Systems I, section 5.2)

The first forward pass has known positions of parameters on the links, the last backward pass those
of gradients. In these passes an activation waits for the bucket that it meets.

A pass takes its path and its waits. Link time beyond all passes over a microbatch is added to the
last of these passes. A step begins with the parameters that the first forward pass lacks. It ends
with the remaining gradients, the update and the remaining work of hosts. The last microbatch
gathers no parameters for a next one, so their part of that link time is subtracted from the begin.

*Exposed* time is neither work nor bubble. It is attributed by traffic:

    activations  the path beyond its work
    parameters   the begin, and a share of waits and of link time beyond the passes
    gradients    the end, and the other share; shares are proportional to traffic time
    hosts        the end of the step that hosts cause

Exposed time of one traffic never exceeds its total time; the excess goes to the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.evaluation.step_time.columns import EDGE_VALUE
from meshwright_solver.evaluation.step_time.critical_path import (
    ACTIVATION,
    COUNT,
    GRADIENT,
    PARAMETER,
    SQUARES,
    TIME,
)
from meshwright_solver.evaluation.step_time.pass_times import (
    Half,
    PassTimes,
    backward,
    backward_to_rest,
    forward,
    forward_from_rest,
)
from meshwright_solver.evaluation.step_time.stage_dag import StageDag

BESIDE = (PARAMETER, GRADIENT)
TRAFFIC = ("activation", "parameter", "gradient")


@dataclass(frozen=True, slots=True)
class Lengths:
    """Pass durations of a stage in ns.

    forward, inputs, weights: one pass over a microbatch. exposed: exposed time of the three passes,
    by traffic. begin, end: once per step. work, update: compute stream time, per microbatch and per
    step. moved, moved_once: traffic time per microbatch, and the additional time per step.
    """

    forward: float
    inputs: float
    weights: float
    begin: float
    end: float
    exposed: tuple[float, float, float]
    work: float
    update: float
    gradient_end: float
    host_end: float
    moved: tuple[float, float, float]
    moved_once: tuple[float, float, float]

    @property
    def passes(self) -> float:
        return self.forward + self.inputs + self.weights

    def step(self, microbatches: int) -> float:
        """Step time of one rank without pipeline bubbles."""
        return self.begin + microbatches * self.passes + self.end

    def exposed_ns(self, microbatches: int, *, begins: bool = True) -> dict[str, float]:
        """Exposed time of a step, by traffic. begins: whether the stage waits for parameters at the
        begin."""
        exposed = {name: microbatches * ns for name, ns in zip(TRAFFIC, self.exposed, strict=True)}
        exposed["parameter"] += self.begin if begins else 0.0
        exposed["gradient"] += self.gradient_end
        times = zip(TRAFFIC, self.moved, self.moved_once, strict=True)
        most = {name: microbatches * ns + once for name, ns, once in times}
        exposed["activation"] = min(exposed["activation"], most["activation"])
        for name, other in (("parameter", "gradient"), ("gradient", "parameter")):
            beyond = max(0.0, exposed[name] - most[name])
            exposed[name] -= beyond
            exposed[other] += beyond
        exposed["host"] = self.host_end
        return exposed


def lengths_of(dag: StageDag, *, training: bool, split: bool) -> Lengths:
    """Pass durations of a stage DAG.

    training: whether there is a backward pass. split: whether it is split into inputs and weights.
    """
    halves: tuple[Half, ...] = ("inputs", "weights") if split else ("whole",)
    passes = [forward(dag)]
    if training:
        passes += [backward(dag, half) for half in halves]
    waits = [_waits(pass_.moved, pass_.longest_ns) for pass_ in passes]
    times = [pass_.longest_ns + waited for pass_, waited in zip(passes, waits, strict=True)]
    beyond = max(0.0, _busiest(np.sum([pass_.moved for pass_ in passes], axis=0)) - sum(times))
    times[-1] += beyond
    moved = _by_traffic(passes)
    ahead = forward_from_rest(dag)
    once = _by_traffic([ahead]) - _by_traffic(passes[:1])
    least = max(ahead.longest_ns, _busiest(ahead.moved))
    ahead_ns = min(beyond, float(passes[0].moved[PARAMETER, :, TIME].max(initial=0.0)))
    begin = max(0.0, least - times[0] - ahead_ns)
    gradient_end = host_end = 0.0
    update = dag.update_ns if training else 0.0
    if training:
        behind = backward_to_rest(dag, halves[-1])
        once += _by_traffic([behind]) - _by_traffic(passes[-1:])
        reduced = float(behind.ends[GRADIENT].max(initial=0.0))
        updated = max(behind.worked_ns, reduced) + update
        least = max(behind.longest_ns, updated, _busiest(behind.moved))
        least += _waits(behind.moved, passes[-1].longest_ns + update, beside=(PARAMETER,))
        gradient_end = max(0.0, least - update - times[-1])
        host_end = max(0.0, reduced + _hosts_ns(dag) - max(behind.longest_ns, updated))
    work = sum(pass_.work_ns for pass_ in passes)
    forward_ns, inputs_ns, weights_ns = (*times, 0.0, 0.0)[:3]
    if training and not split:
        # a whole pass is split into the work on weights and the rest
        weights_ns = dag.weights_ns
        inputs_ns -= weights_ns
    return Lengths(
        forward=forward_ns,
        inputs=inputs_ns,
        weights=weights_ns,
        begin=begin,
        end=gradient_end + host_end + update,
        exposed=_exposed(passes, sum(waits) + beyond),
        work=work,
        update=update,
        gradient_end=gradient_end,
        host_end=host_end,
        moved=(float(moved[ACTIVATION]), float(moved[PARAMETER]), float(moved[GRADIENT])),
        moved_once=(0.0, float(once[PARAMETER]), float(once[GRADIENT])),
    )


def _by_traffic(passes: list[PassTimes]) -> FloatArray:
    """Link time of each kind of traffic over some passes, summed over links."""
    totals: FloatArray = np.sum([pass_.moved for pass_ in passes], axis=0)[:, :, TIME].sum(axis=1)
    return totals


def _exposed(passes: list[PassTimes], waited: float) -> tuple[float, float, float]:
    moved = _by_traffic(passes)
    beside = float(moved[PARAMETER] + moved[GRADIENT])
    share = float(moved[PARAMETER]) / beside if beside else 0.0
    activation = sum(pass_.longest_ns - pass_.work_ns for pass_ in passes)
    return max(0.0, activation), waited * share, waited * (1 - share)


def _busiest(moved: FloatArray) -> float:
    """Link time of the busiest link."""
    return float(moved[:, :, TIME].sum(axis=0).max(initial=0.0))


def _waits(moved: FloatArray, path: float, beside: tuple[int, ...] = BESIDE) -> float:
    """Time that activations wait for buckets on their link."""
    total = 0.0
    buckets = moved[list(beside)].sum(axis=0)
    for link in range(moved.shape[1]):
        count, urgent = moved[ACTIVATION, link, COUNT], moved[ACTIVATION, link, TIME]
        often, busy, squares = buckets[link, COUNT], buckets[link, TIME], buckets[link, SQUARES]
        if not count or not busy:
            continue
        room = path - urgent
        share = min(1.0, busy / room) if room > 0 else 1.0
        total += min(min(count * share, often) * squares / (2 * busy), busy)
    return float(total)


def _hosts_ns(dag: StageDag) -> float:
    """End of the host pipeline: each parameter is offloaded, updated and uploaded in turn."""
    order = np.unique(dag.edges[:, EDGE_VALUE], return_index=True)
    rows = dag.host[order[0][np.argsort(order[1])]]
    down = work = up = 0.0
    for row in rows[rows.any(axis=1)].tolist():
        down += row[0]
        work = max(work, down) + row[1]
        up = max(up, work) + row[2]
    return up
