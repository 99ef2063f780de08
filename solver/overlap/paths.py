"""The longest way through a pass: compiled, over the arrays of a `Course`.

Work waits for what it needs and for the work before it, a collective for what it needs and for
those of its kind on its link. Rows of what is moved: activations, parameters, gradients.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numba
import numpy as np

from solver.overlap.chains import Chains
from solver.overlap.columns import (
    ALL,
    EDGE_AGAIN,
    EDGE_BACK,
    EDGE_GATHER,
    EDGE_HAS_GRADIENT,
    EDGE_OFTEN,
    EDGE_ONCE,
    EDGE_READER,
    EDGE_SAVING,
    EDGE_THERE,
    EDGE_VALUE,
    OP_AFTER,
    OP_AGAIN,
    OP_BACK_AFTER,
    OP_BACK_BEFORE,
    OP_BACK_BESIDE,
    OP_BEFORE,
    OP_BESIDE,
    OP_IS_AGAIN,
    OP_RUNS_BACKWARD,
    OP_SEGMENT,
    OP_WEIGHTS,
    VALUE_AGAIN,
    VALUE_BACK,
    VALUE_GATHER,
    VALUE_GATHER_AGAIN,
    VALUE_OFTEN,
    VALUE_ONCE,
    VALUE_PRODUCER,
    VALUE_SPREAD,
    VALUE_THERE,
)
from solver.overlap.course import Course
from solver.states import FloatArray, IntArray

ACTIVATION, PARAMETER, GRADIENT = range(3)
COUNT, TIME, SQUARES = range(3)

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
    ends, moved = _streams(course)
    worked_ns = _forward(
        course.chains, course.ops, course.ns, course.edges, course.edge_first, course.values,
        with_parameters, ends, moved,
    )  # fmt: skip
    return _found(worked_ns, float(course.ns[:, 0].sum()), ends, moved)


def _backward_found(course: Course, half: Half, *, with_gradients: bool) -> Found:
    ends, moved = _streams(course)
    worked_ns = _backward(
        course.chains, course.ops, course.ns, course.edges, course.edge_first, course.values,
        course.made_first, course.made, course.segment_first, course.segments,
        half != "weights", half != "inputs", with_gradients, ends, moved,
    )  # fmt: skip
    work_ns = 0.0
    if half != "weights":
        again = course.ns[course.ops[:, OP_IS_AGAIN] > 0, 0]
        runs = course.ops[:, OP_RUNS_BACKWARD] > 0
        work_ns += float(course.ns[runs, 1].sum() + again.sum())
    if half != "inputs":
        work_ns += course.weights_ns
    return _found(worked_ns, work_ns, ends, moved)


def _found(worked_ns: float, work_ns: float, ends: FloatArray, moved: FloatArray) -> Found:
    return Found(max(worked_ns, float(ends.max(initial=0.0))), worked_ns, work_ns, ends, moved)


def _streams(course: Course) -> tuple[FloatArray, FloatArray]:
    return np.zeros((3, course.links)), np.zeros((3, course.links, 3))


@numba.njit(cache=True, nogil=True)
def _moved(
    chains: Chains,
    chain: int,
    need: float,
    kind: int,
    timed: bool,
    ends: FloatArray,
    moved: FloatArray,
) -> float:
    """When a chain that begins at `need` ends."""
    for k in range(chains.first[chain], chains.first[chain + 1]):
        link, ns = chains.link[k], chains.ns[k]
        parts = 1 if kind == ACTIVATION else chains.buckets[k]
        moved[kind, link, COUNT] += parts
        moved[kind, link, TIME] += ns
        moved[kind, link, SQUARES] += ns * ns / parts
        if timed:
            need = max(need, ends[kind, link]) + ns
            ends[kind, link] = need
    return need


@numba.njit(cache=True, nogil=True)
def _forward(
    chains: Chains,
    ops: IntArray,
    ns: FloatArray,
    edges: IntArray,
    edge_first: IntArray,
    values: IntArray,
    with_parameters: bool,
    ends: FloatArray,
    moved: FloatArray,
) -> float:
    count = len(values)
    ready = np.full(count, -1.0)  # of values as their readers share them
    spread = np.zeros(count)
    done = np.zeros(len(ops))
    work = 0.0
    if with_parameters:
        seen = np.zeros(count, dtype=np.bool_)
        for e in range(len(edges)):
            v = edges[e, EDGE_VALUE]
            if values[v, VALUE_PRODUCER] < 0 and not seen[v]:
                seen[v] = True
                spread[v] = _moved(
                    chains, values[v, VALUE_SPREAD], 0.0, PARAMETER, True, ends, moved
                )
    for i in range(len(ops)):
        need = 0.0
        for e in range(edge_first[i], edge_first[i + 1]):
            v = edges[e, EDGE_VALUE]
            producer = values[v, VALUE_PRODUCER]
            if producer < 0:
                if ready[v] < 0:
                    ready[v] = _moved(
                        chains, values[v, VALUE_GATHER], spread[v], PARAMETER, with_parameters,
                        ends, moved,
                    )  # fmt: skip
                there = _moved(
                    chains, edges[e, EDGE_GATHER], ready[v], PARAMETER, with_parameters, ends, moved
                )
            else:
                if ready[v] < 0:
                    ready[v] = _moved(
                        chains,
                        values[v, VALUE_THERE],
                        done[producer],
                        ACTIVATION,
                        True,
                        ends,
                        moved,
                    )
                there = ready[v]
            need = max(
                need, _moved(chains, edges[e, EDGE_THERE], there, ACTIVATION, True, ends, moved)
            )
        need = _moved(chains, ops[i, OP_BEFORE], need, ACTIVATION, True, ends, moved)
        work = max(work, need) + ns[i, 0]
        beside = _moved(chains, ops[i, OP_BESIDE], need, ACTIVATION, True, ends, moved)
        done[i] = _moved(chains, ops[i, OP_AFTER], max(work, beside), ACTIVATION, True, ends, moved)
    return work


@numba.njit(cache=True, nogil=True)
def _backward(
    chains: Chains,
    ops: IntArray,
    ns: FloatArray,
    edges: IntArray,
    edge_first: IntArray,
    values: IntArray,
    made_first: IntArray,
    made: IntArray,
    segment_first: IntArray,
    segments: IntArray,
    inputs: bool,
    weights: bool,
    with_gradients: bool,
    ends: FloatArray,
    moved: FloatArray,
) -> float:
    count = len(values)
    left = np.zeros(count, dtype=np.int64)
    gradient = np.zeros(count)
    ready = np.full(count, -1.0)  # of gradients where the value was made
    made_again = np.full(len(ops), -1.0)
    shared_again = np.full(count, -1.0)
    again = np.full(len(edges), -1.0)
    gathered = np.zeros((count, 2), dtype=np.bool_)
    written = np.zeros(len(segment_first), dtype=np.bool_)
    once_chain = np.zeros(len(edges), dtype=np.int64)
    once_need = np.zeros(len(edges))
    reductions = 0
    work = 0.0
    for e in range(len(edges)):
        if edges[e, EDGE_HAS_GRADIENT] and ops[edges[e, EDGE_READER], OP_RUNS_BACKWARD]:
            left[edges[e, EDGE_VALUE]] += 1
    for i in range(len(ops) - 1, -1, -1):
        given = 0.0
        for k in range(made_first[i], made_first[i + 1]):
            v = made[k]
            if ready[v] < 0:
                ready[v] = _half(
                    inputs, chains, values[v, VALUE_BACK], gradient[v], ACTIVATION, ends, moved
                )
            given = max(given, ready[v])
        own = ops[i, OP_SEGMENT]
        if own >= 0 and inputs and not written[own]:
            written[own] = True
            for k in range(segment_first[own], segment_first[own + 1]):
                j = segments[k]
                need = given
                for e in range(edge_first[j], edge_first[j + 1]):
                    if values[edges[e, EDGE_VALUE], VALUE_PRODUCER] >= 0:
                        need = max(
                            need,
                            _read_again(
                                e, given, chains, edges, values, made_again, shared_again, again,
                                ends, moved,
                            ),
                        )  # fmt: skip
                need = _moved(chains, ops[j, OP_AGAIN], need, ACTIVATION, True, ends, moved)
                work = max(work, need) + ns[j, 0]
                made_again[j] = work
        if not ops[i, OP_RUNS_BACKWARD]:
            continue
        share = ops[i, OP_WEIGHTS]
        first = weights if share == ALL else inputs
        given = _half(first, chains, ops[i, OP_BACK_BEFORE], given, ACTIVATION, ends, moved)
        need_inputs, need_weights = given, given
        for e in range(edge_first[i], edge_first[i + 1]):
            v = edges[e, EDGE_VALUE]
            if values[v, VALUE_PRODUCER] < 0:
                half = 1 if share == ALL else 0
                if (weights if half else inputs) and values[v, VALUE_GATHER_AGAIN]:
                    gathers = edges[e, EDGE_GATHER]
                    if not gathered[v, half]:
                        gathered[v, half] = True
                        gathers = max(gathers, values[v, VALUE_GATHER])
                    _moved(chains, gathers, 0.0, PARAMETER, False, ends, moved)
            elif edges[e, EDGE_SAVING] and inputs:
                there = _read_again(
                    e, given, chains, edges, values, made_again, shared_again, again, ends, moved
                )
                if share > 0:
                    need_weights = max(need_weights, there)
                else:
                    need_inputs = max(need_inputs, there)
        done, of_weights = 0.0, 0.0
        if share != ALL and inputs:
            work = max(work, need_inputs) + ns[i, 1]
            done = work
        of_weights = done
        if share != 0:
            of_weights = 0.0
            if weights:
                work = max(work, need_weights) + ns[i, 2]
                of_weights = work
            if share == ALL:
                done = of_weights
        beside = _half(first, chains, ops[i, OP_BACK_BESIDE], given, ACTIVATION, ends, moved)
        done = max(done, beside)
        done = _half(first, chains, ops[i, OP_BACK_AFTER], done, ACTIVATION, ends, moved)
        for e in range(edge_first[i], edge_first[i + 1]):
            if not edges[e, EDGE_HAS_GRADIENT]:
                continue
            v = edges[e, EDGE_VALUE]
            is_parameter = values[v, VALUE_PRODUCER] < 0
            of_half = is_parameter and share > 0
            back = _half(
                weights if of_half or share == ALL else inputs,
                chains, edges[e, EDGE_BACK], of_weights if of_half else done, ACTIVATION,
                ends, moved,
            )  # fmt: skip
            gradient[v] = max(gradient[v], back)
            left[v] -= 1
            if is_parameter:
                if weights:
                    back = _moved(
                        chains, edges[e, EDGE_OFTEN], back, GRADIENT, with_gradients, ends, moved
                    )
                    if edges[e, EDGE_ONCE]:
                        once_chain[reductions], once_need[reductions] = edges[e, EDGE_ONCE], back
                        reductions += 1
                    if left[v] == 0:
                        back = _moved(
                            chains, values[v, VALUE_OFTEN], gradient[v], GRADIENT, with_gradients,
                            ends, moved,
                        )  # fmt: skip
                        if values[v, VALUE_ONCE]:
                            once_chain[reductions], once_need[reductions] = (
                                values[v, VALUE_ONCE],
                                back,
                            )
                            reductions += 1
            elif left[v] == 0:
                ready[v] = _half(
                    inputs, chains, values[v, VALUE_BACK], gradient[v], ACTIVATION, ends, moved
                )
    if with_gradients:
        for k in range(reductions):
            _moved(chains, once_chain[k], once_need[k], GRADIENT, True, ends, moved)
    return work


@numba.njit(cache=True, nogil=True)
def _half(
    runs: bool,
    chains: Chains,
    chain: int,
    need: float,
    kind: int,
    ends: FloatArray,
    moved: FloatArray,
) -> float:
    """The same in a half of the backward pass; nothing where that is not what runs."""
    if not runs:
        return 0.0
    return _moved(chains, chain, need, kind, True, ends, moved)


@numba.njit(cache=True, nogil=True)
def _read_again(
    e: int,
    given: float,
    chains: Chains,
    edges: IntArray,
    values: IntArray,
    made_again: FloatArray,
    shared_again: FloatArray,
    again: FloatArray,
    ends: FloatArray,
    moved: FloatArray,
) -> float:
    """When a value is there once more as a reader needs it, moved again where the plan says so."""
    if again[e] < 0:
        v = edges[e, EDGE_VALUE]
        if shared_again[v] < 0:
            base = made_again[values[v, VALUE_PRODUCER]]
            base = base if base >= 0 else given
            chain = values[v, VALUE_THERE] if values[v, VALUE_AGAIN] else 0
            shared_again[v] = _moved(chains, chain, base, ACTIVATION, True, ends, moved)
        chain = edges[e, EDGE_THERE] if edges[e, EDGE_AGAIN] else 0
        again[e] = _moved(chains, chain, shared_again[v], ACTIVATION, True, ends, moved)
    found: float = again[e]
    return found
