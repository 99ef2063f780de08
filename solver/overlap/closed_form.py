"""How long a stage's passes take with what overlaps, in closed form: no events are run.

Of a pass over a microbatch, with A_l the time of its activations and B_l that of its parameters and
gradients on link l,

    path     the longest way through its work and activations (`paths.py`)
    least    max(path, max over l of A_l + B_l): no link is done before it has moved all
    waits    sum over l of min(n_l rho_l, k_l) s_l / 2: each of n_l activations finds the link at
             one of k_l buckets with probability rho_l = B_l / (path - A_l), at most 1, and waits
             for the rest of it; s_l / 2 = sum of squares / (2 B_l), the mean residual service of
             queueing theory (Kleinrock 1975, Queueing Systems I, section 5.2)

In the first forward pass it is known which parameters are on the links when, in the last backward
pass which gradients: there activations wait for the very bucket that they meet.

A pass takes its path and its waits; what links cannot do beside the passes over a microbatch is
added to the last of these. At the begin of a step comes what the first forward pass lacks of
parameters, at its end what is left of the gradients, the update, and what hosts do longer.

What of this is neither work nor bubble is *exposed*, by traffic: a path beyond its work is that of
activations; waits and what links cannot do beside are shared by parameters and gradients as their
time is; the begin is the parameters', the end the gradients' and the host's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.overlap.columns import EDGE_VALUE
from solver.overlap.course import Course
from solver.overlap.passes import (
    Found,
    Half,
    backward,
    backward_to_rest,
    forward,
    forward_from_rest,
)
from solver.overlap.paths import ACTIVATION, COUNT, GRADIENT, PARAMETER, SQUARES, TIME
from solver.states import FloatArray

BESIDE = (PARAMETER, GRADIENT)
TRAFFIC = ("activation", "parameter", "gradient")


@dataclass(frozen=True, slots=True)
class Lengths:
    """ns. forward, inputs, weights: of a pass over one microbatch, and what of all three is exposed
    by traffic; begin, end: once a step. work, update: of the compute stream, in a microbatch and
    once."""

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

    @property
    def passes(self) -> float:
        return self.forward + self.inputs + self.weights

    def step(self, microbatches: int) -> float:
        """Of one rank that has no others to wait for."""
        return self.begin + microbatches * self.passes + self.end

    def exposed_ns(self, microbatches: int, *, begins: bool = True) -> dict[str, float]:
        """Over a step, by traffic. begins: whether the stage waits for parameters at the begin."""
        found = {name: microbatches * own for name, own in zip(TRAFFIC, self.exposed, strict=True)}
        found["parameter"] += self.begin if begins else 0.0
        found["gradient"] += self.gradient_end
        found["host"] = self.host_end
        return found


def lengths_of(course: Course, *, training: bool, split: bool) -> Lengths:
    """training: whether there is a backward pass. split: whether that is made in two halves."""
    halves: tuple[Half, ...] = ("inputs", "weights") if split else ("whole",)
    own = [forward(course)]
    if training:
        own += [backward(course, half) for half in halves]
    waits = [_waits(found.moved, found.longest_ns) for found in own]
    times = [found.longest_ns + waited for found, waited in zip(own, waits, strict=True)]
    beyond = max(0.0, _busiest(np.sum([found.moved for found in own], axis=0)) - sum(times))
    times[-1] += beyond
    ahead = forward_from_rest(course)
    least = max(ahead.longest_ns, _busiest(ahead.moved))
    begin = max(0.0, least - times[0])
    gradient_end = host_end = 0.0
    update = course.update_ns if training else 0.0
    if training:
        behind = backward_to_rest(course, halves[-1])
        reduced = float(behind.ends[GRADIENT].max(initial=0.0))
        updated = max(behind.worked_ns, reduced) + update
        least = max(behind.longest_ns, updated, _busiest(behind.moved))
        least += _waits(behind.moved, own[-1].longest_ns + update, beside=(PARAMETER,))
        gradient_end = max(0.0, least - update - times[-1])
        host_end = max(0.0, reduced + _hosts_ns(course) - max(behind.longest_ns, updated))
    work = sum(found.work_ns for found in own)
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
        exposed=_exposed(own, sum(waits) + beyond),
        work=work,
        update=update,
        gradient_end=gradient_end,
        host_end=host_end,
    )


def _exposed(own: list[Found], waited: float) -> tuple[float, float, float]:
    moved = np.sum([found.moved for found in own], axis=0)[:, :, TIME].sum(axis=1)
    beside = float(moved[PARAMETER] + moved[GRADIENT])
    share = float(moved[PARAMETER]) / beside if beside else 0.0
    activation = sum(found.longest_ns - found.work_ns for found in own)
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
        total += min(count * share, often) * squares / (2 * busy)
    return float(total)


def _hosts_ns(course: Course) -> float:
    """Parameter after parameter goes down to the host, is updated there and comes back."""
    order = np.unique(course.edges[:, EDGE_VALUE], return_index=True)
    rows = course.host[order[0][np.argsort(order[1])]]
    down = work = up = 0.0
    for own in rows[rows.any(axis=1)].tolist():
        down += own[0]
        work = max(work, down) + own[1]
        up = max(up, work) + own[2]
    return up
