"""How long a stage's passes take with what overlaps, in closed form: no events are run.

Of a pass over a microbatch, with A_l the time of its activations and B_l that of its parameters and
gradients on link l,

    path     the longest way through its work and activations (`critical_path.py`)
    least    max(path, max over l of A_l + B_l): no link is done before it has moved all
    waits    sum over l of min(min(n_l rho_l, k_l) s_l / 2, B_l): each of n_l activations finds the
             link at one of k_l buckets with probability rho_l = B_l / (path - A_l), at most 1, and
             waits for the rest of it; s_l / 2 = sum of squares / (2 B_l), the mean residual service
             of queueing theory (Kleinrock 1975, Queueing Systems I, section 5.2)

In the first forward pass it is known which parameters are on the links when, in the last backward
pass which gradients: there activations wait for the very bucket that they meet.

A pass takes its path and its waits; what links cannot do beside the passes over a microbatch is
added to the last of these. At the begin of a step comes what the first forward pass lacks of
parameters, at its end what is left of the gradients, the update, and what hosts do longer. The last
microbatch gathers no parameters for a next one: as much of what its links cannot do beside is taken
off the begin.

What of this is neither work nor bubble is *exposed*, by traffic: a path beyond its work is that of
activations; waits and what links cannot do beside are shared by parameters and gradients as their
time is; the begin is the parameters', the end the gradients' and the host's. No traffic is exposed
for longer than it takes: what a share has beyond that is the other's.
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
    """ns. forward, inputs, weights: of a pass over one microbatch, and what of all three is exposed
    by traffic; begin, end: once a step. work, update: of the compute stream, in a microbatch and
    once. moved, moved_once: what traffic takes in a microbatch, and beyond that in a step."""

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
        """Of one rank that has no others to wait for."""
        return self.begin + microbatches * self.passes + self.end

    def exposed_ns(self, microbatches: int, *, begins: bool = True) -> dict[str, float]:
        """Over a step, by traffic. begins: whether the stage waits for parameters at the begin."""
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


def lengths_of(course: StageDag, *, training: bool, split: bool) -> Lengths:
    """training: whether there is a backward pass. split: whether that is made in two halves."""
    halves: tuple[Half, ...] = ("inputs", "weights") if split else ("whole",)
    passes = [forward(course)]
    if training:
        passes += [backward(course, half) for half in halves]
    waits = [_waits(pass_.moved, pass_.longest_ns) for pass_ in passes]
    times = [pass_.longest_ns + waited for pass_, waited in zip(passes, waits, strict=True)]
    beyond = max(0.0, _busiest(np.sum([pass_.moved for pass_ in passes], axis=0)) - sum(times))
    times[-1] += beyond
    moved = _by_traffic(passes)
    ahead = forward_from_rest(course)
    once = _by_traffic([ahead]) - _by_traffic(passes[:1])
    least = max(ahead.longest_ns, _busiest(ahead.moved))
    ahead_ns = min(beyond, float(passes[0].moved[PARAMETER, :, TIME].max(initial=0.0)))
    begin = max(0.0, least - times[0] - ahead_ns)
    gradient_end = host_end = 0.0
    update = course.update_ns if training else 0.0
    if training:
        behind = backward_to_rest(course, halves[-1])
        once += _by_traffic([behind]) - _by_traffic(passes[-1:])
        reduced = float(behind.ends[GRADIENT].max(initial=0.0))
        updated = max(behind.worked_ns, reduced) + update
        least = max(behind.longest_ns, updated, _busiest(behind.moved))
        least += _waits(behind.moved, passes[-1].longest_ns + update, beside=(PARAMETER,))
        gradient_end = max(0.0, least - update - times[-1])
        host_end = max(0.0, reduced + _hosts_ns(course) - max(behind.longest_ns, updated))
    work = sum(pass_.work_ns for pass_ in passes)
    forward_ns, inputs_ns, weights_ns = (*times, 0.0, 0.0)[:3]
    if training and not split:
        # of a whole pass: the work on weights, and the rest
        weights_ns = course.weights_ns
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
    """What every kind takes in some passes, on all links."""
    totals: FloatArray = np.sum([pass_.moved for pass_ in passes], axis=0)[:, :, TIME].sum(axis=1)
    return totals


def _exposed(passes: list[PassTimes], waited: float) -> tuple[float, float, float]:
    moved = _by_traffic(passes)
    beside = float(moved[PARAMETER] + moved[GRADIENT])
    share = float(moved[PARAMETER]) / beside if beside else 0.0
    activation = sum(pass_.longest_ns - pass_.work_ns for pass_ in passes)
    return max(0.0, activation), waited * share, waited * (1 - share)


def _busiest(moved: FloatArray) -> float:
    """What the link with most to do has to do."""
    return float(moved[:, :, TIME].sum(axis=0).max(initial=0.0))


def _waits(moved: FloatArray, path: float, beside: tuple[int, ...] = BESIDE) -> float:
    """Of activations, for buckets that are on their link when they come."""
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


def _hosts_ns(course: StageDag) -> float:
    """Parameter after parameter goes down to the host, is updated there and comes back."""
    order = np.unique(course.edges[:, EDGE_VALUE], return_index=True)
    rows = course.host[order[0][np.argsort(order[1])]]
    down = work = up = 0.0
    for row in rows[rows.any(axis=1)].tolist():
        down += row[0]
        work = max(work, down) + row[1]
        up = max(up, work) + row[2]
    return up
