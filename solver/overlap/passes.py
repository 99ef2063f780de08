"""The passes of a course: how long their longest way takes, and what they move."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from solver.overlap.columns import OP_IS_AGAIN, OP_RUNS_BACKWARD
from solver.overlap.course import Course
from solver.overlap.paths import Links, walk_backward, walk_forward
from solver.states import FloatArray

Half = Literal["whole", "inputs", "weights"]


class Found(NamedTuple):
    """longest_ns: the end of what ends last. worked_ns: that of the last work. work_ns: of all work
    alone. ends: of every kind on every link. moved: by kind and link, how many collectives, their
    time, and the sum of its squares."""

    longest_ns: float
    worked_ns: float
    work_ns: float
    ends: FloatArray
    moved: FloatArray


def forward(course: Course) -> Found:
    """The forward pass, of parameters that are there."""
    return _forward_found(course, with_parameters=False)


def forward_from_rest(course: Course) -> Found:
    """The first forward pass, once parameters are spread and as they are gathered."""
    return _forward_found(course, with_parameters=True)


def backward(course: Course, half: Half) -> Found:
    """The backward pass or a half of it; gradients of parameters are reduced when there is time."""
    return _backward_found(course, half, with_gradients=False)


def backward_to_rest(course: Course, half: Half) -> Found:
    """The last one, with the reductions in it and behind it."""
    return _backward_found(course, half, with_gradients=True)


def _forward_found(course: Course, *, with_parameters: bool) -> Found:
    links = _links(course, chains_each=2 * with_parameters)
    worked_ns = walk_forward(
        course.chains, course.ops, course.ns, course.edges, course.edge_first, course.values,
        with_parameters, links,
    )  # fmt: skip
    return _found(worked_ns, float(course.ns[:, 0].sum()), links)


def _backward_found(course: Course, half: Half, *, with_gradients: bool) -> Found:
    links = _links(course, chains_each=2 * with_gradients)
    worked_ns = walk_backward(
        course.chains, course.ops, course.ns, course.edges, course.edge_first, course.values,
        course.made_first, course.made, course.segment_first, course.segments,
        half != "weights", half != "inputs", with_gradients, links,
    )  # fmt: skip
    work_ns = 0.0
    if half != "weights":
        again = course.ns[course.ops[:, OP_IS_AGAIN] > 0, 0]
        runs = course.ops[:, OP_RUNS_BACKWARD] > 0
        work_ns += float(course.ns[runs, 1].sum() + again.sum())
    if half != "inputs":
        work_ns += course.weights_ns
    return _found(worked_ns, work_ns, links)


def _found(worked_ns: float, work_ns: float, links: Links) -> Found:
    ends = links.ends
    return Found(
        max(worked_ns, float(ends.max(initial=0.0))), worked_ns, work_ns, ends, links.moved
    )


def _links(course: Course, *, chains_each: int) -> Links:
    """Nothing is sent yet. chains_each: of what may wait, at most for a value and for an edge."""
    longest = int(np.diff(course.chains.first).max())
    most = chains_each * longest * (len(course.values) + len(course.edges))
    waiting = np.empty((course.links, most + 1, 4))
    waiting[:, 0] = 0.0
    return Links(np.zeros((3, course.links)), np.zeros((3, course.links, 3)), waiting)
