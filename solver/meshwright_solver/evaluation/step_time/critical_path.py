"""Critical path of a pass, compiled, over the arrays of a `StageDag`.

Work waits for its inputs and for earlier work. A collective waits for its input and for collectives
of the same kind on its link. Parameters and gradients, if *timed*, move bucket by bucket and are
deferrable: an activation waits for the end of the bucket that it meets on its link. The rest of
that collective and all later ones wait for the end of the activation.

All functions are in one file, so that the compiler inlines them into the inner loops. `_send` is
inlined into its callers: most chains are empty, and passing the arrays would dominate the cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.evaluation.step_time.collective_chains import NOTHING, Chains
from meshwright_solver.evaluation.step_time.columns import (
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

ACTIVATION, PARAMETER, GRADIENT = range(3)
COUNT, TIME, SQUARES = range(3)
# columns of deferrable collectives; row 0 of a link: the number of rows, the number of rows done
# before its last activation began, and the begin of that activation
READY, START, END, BUCKETS = range(4)
ROWS, DONE, BEGUN = range(3)
NOWHERE = 0
CLOSE = 1e-9  # share of a bucket: rounding errors of sums are smaller


class LinkState(NamedTuple):
    """Occupancy of all links.

    ends: by kind and link, the end of the last collective. moved: by kind and link, the number of
    collectives, their time, and the sum of its squares. waiting: by link, the deferrable
    collectives in order.
    """

    ends: FloatArray
    moved: FloatArray
    waiting: FloatArray


@njit(cache=True, nogil=True)
def walk_forward(
    chains: Chains,
    ops: IntArray,
    ns: FloatArray,
    edges: IntArray,
    edge_first: IntArray,
    values: IntArray,
    with_parameters: bool,
    links: LinkState,
) -> float:
    """End of the last work of a forward pass, in ns. with_parameters: gather parameters in this
    pass."""
    count = len(values)
    ready = np.full(count, -1.0)  # by value, in the layout that readers share
    known = np.zeros(count, dtype=np.bool_)
    # collective that delivers a parameter, by value and by edge
    link, place = np.zeros(count, dtype=np.int64), np.full(count, NOWHERE)
    own_link, own_place = np.zeros(len(edges), dtype=np.int64), np.full(len(edges), NOWHERE)
    done = np.zeros(len(ops))
    work = 0.0
    if with_parameters:
        for e in range(len(edges)):
            v = edges[e, EDGE_VALUE]
            if values[v, VALUE_PRODUCER] < 0 and not known[v]:
                known[v] = True
                _send(chains, values[v, VALUE_SPREAD], 0.0, PARAMETER, True, links)
                link[v], place[v] = _place_of(chains, values[v, VALUE_SPREAD], links)
        known[:] = False
    for e in range(len(edges)):
        v = edges[e, EDGE_VALUE]
        if values[v, VALUE_PRODUCER] >= 0:
            continue
        if not known[v]:
            known[v] = True
            gather = values[v, VALUE_GATHER]
            spread = _end_of(link[v], place[v], links)
            _send(chains, gather, spread, PARAMETER, with_parameters, links)
            if with_parameters and gather != NOTHING:
                link[v], place[v] = _place_of(chains, gather, links)
        own_link[e], own_place[e], gather = link[v], place[v], edges[e, EDGE_GATHER]
        there = _end_of(link[v], place[v], links)
        _send(chains, gather, there, PARAMETER, with_parameters, links)
        if with_parameters and gather != NOTHING:
            own_link[e], own_place[e] = _place_of(chains, gather, links)
    for i in range(len(ops)):
        need = 0.0
        for e in range(edge_first[i], edge_first[i + 1]):
            v = edges[e, EDGE_VALUE]
            producer = values[v, VALUE_PRODUCER]
            if producer < 0:
                there = _end_of(own_link[e], own_place[e], links)
            else:
                if ready[v] < 0:
                    ready[v] = _send(
                        chains, values[v, VALUE_THERE], done[producer], ACTIVATION, True, links
                    )
                there = ready[v]
            need = max(need, _send(chains, edges[e, EDGE_THERE], there, ACTIVATION, True, links))
        need = _send(chains, ops[i, OP_BEFORE], need, ACTIVATION, True, links)
        work = max(work, need) + ns[i, 0]
        beside = _send(chains, ops[i, OP_BESIDE], need, ACTIVATION, True, links)
        done[i] = _send(chains, ops[i, OP_AFTER], max(work, beside), ACTIVATION, True, links)
    _settle(np.int64(PARAMETER), links)
    return work


@njit(cache=True, nogil=True)
def walk_backward(
    chains: Chains,
    ops: IntArray,
    ns: FloatArray,
    edges: IntArray,
    edge_first: IntArray,
    values: IntArray,
    output_first: IntArray,
    outputs: IntArray,
    segment_first: IntArray,
    segments: IntArray,
    inputs: bool,
    weights: bool,
    with_gradients: bool,
    links: LinkState,
) -> float:
    """End of the last work of a backward pass, in ns.

    inputs, weights: the halves of the pass to run. with_gradients: reduce gradients in this pass.
    """
    count = len(values)
    pending = np.zeros(count, dtype=np.int64)
    gradient = np.zeros(count)
    ready = np.full(count, -1.0)  # by value: its gradient at the producer
    recomputed_at = np.full(len(ops), -1.0)
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
            pending[edges[e, EDGE_VALUE]] += 1
    for i in range(len(ops) - 1, -1, -1):
        gradient_ready = 0.0
        for k in range(output_first[i], output_first[i + 1]):
            v = outputs[k]
            if ready[v] < 0:
                ready[v] = _half(
                    inputs, chains, values[v, VALUE_BACK], gradient[v], ACTIVATION, links
                )
            gradient_ready = max(gradient_ready, ready[v])
        segment = ops[i, OP_SEGMENT]
        if segment >= 0 and inputs and not written[segment]:
            written[segment] = True
            for k in range(segment_first[segment], segment_first[segment + 1]):
                j = segments[k]
                need = gradient_ready
                for e in range(edge_first[j], edge_first[j + 1]):
                    if values[edges[e, EDGE_VALUE], VALUE_PRODUCER] >= 0:
                        need = max(
                            need,
                            _read_again(
                                e, gradient_ready, chains, edges, values, recomputed_at,
                                shared_again, again, links,
                            ),
                        )  # fmt: skip
                need = _send(chains, ops[j, OP_AGAIN], need, ACTIVATION, True, links)
                work = max(work, need) + ns[j, 0]
                recomputed_at[j] = work
        if not ops[i, OP_RUNS_BACKWARD]:
            continue
        share = ops[i, OP_WEIGHTS]
        first = weights if share == ALL else inputs
        gradient_ready = _half(
            first, chains, ops[i, OP_BACK_BEFORE], gradient_ready, ACTIVATION, links
        )
        need_inputs, need_weights = gradient_ready, gradient_ready
        for e in range(edge_first[i], edge_first[i + 1]):
            v = edges[e, EDGE_VALUE]
            if values[v, VALUE_PRODUCER] < 0:
                half = 1 if share == ALL else 0
                if (weights if half else inputs) and values[v, VALUE_GATHER_AGAIN]:
                    gathers = edges[e, EDGE_GATHER]
                    if not gathered[v, half]:
                        gathered[v, half] = True
                        gathers = max(gathers, values[v, VALUE_GATHER])
                    _send(chains, gathers, 0.0, PARAMETER, False, links)
            elif edges[e, EDGE_SAVING] and inputs:
                there = _read_again(
                    e,
                    gradient_ready,
                    chains,
                    edges,
                    values,
                    recomputed_at,
                    shared_again,
                    again,
                    links,
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
        beside = _half(first, chains, ops[i, OP_BACK_BESIDE], gradient_ready, ACTIVATION, links)
        done = max(done, beside)
        done = _half(first, chains, ops[i, OP_BACK_AFTER], done, ACTIVATION, links)
        for e in range(edge_first[i], edge_first[i + 1]):
            if not edges[e, EDGE_HAS_GRADIENT]:
                continue
            v = edges[e, EDGE_VALUE]
            is_parameter = values[v, VALUE_PRODUCER] < 0
            of_half = is_parameter and share > 0
            back = _half(
                weights if of_half or share == ALL else inputs,
                chains, edges[e, EDGE_BACK], of_weights if of_half else done, ACTIVATION,
                links,
            )  # fmt: skip
            gradient[v] = max(gradient[v], back)
            pending[v] -= 1
            if is_parameter:
                if weights:
                    back = _send(
                        chains, edges[e, EDGE_OFTEN], back, GRADIENT, with_gradients, links
                    )
                    if edges[e, EDGE_ONCE]:
                        once_chain[reductions], once_need[reductions] = edges[e, EDGE_ONCE], back
                        reductions += 1
                    if pending[v] == 0:
                        back = _send(
                            chains, values[v, VALUE_OFTEN], gradient[v], GRADIENT, with_gradients,
                            links,
                        )  # fmt: skip
                        if values[v, VALUE_ONCE]:
                            once_chain[reductions], once_need[reductions] = (
                                values[v, VALUE_ONCE],
                                back,
                            )
                            reductions += 1
            elif pending[v] == 0:
                ready[v] = _half(
                    inputs, chains, values[v, VALUE_BACK], gradient[v], ACTIVATION, links
                )
    if with_gradients:
        for k in range(reductions):
            _send(chains, once_chain[k], once_need[k], GRADIENT, True, links)
    _settle(np.int64(GRADIENT), links)
    return work


@njit(cache=True, nogil=True)
def _half(
    runs: bool,
    chains: Chains,
    chain: int,
    need: float,
    kind: int,
    links: LinkState,
) -> float:
    """End of a chain in a half of the backward pass; 0 if this half does not run."""
    if not runs:
        return 0.0
    return _send(chains, chain, need, kind, True, links)


@njit(cache=True, nogil=True)
def _read_again(
    e: int,
    gradient_ready: float,
    chains: Chains,
    edges: IntArray,
    values: IntArray,
    recomputed_at: FloatArray,
    shared_again: FloatArray,
    again: FloatArray,
    links: LinkState,
) -> float:
    """Time at which a value is available to a reader in the backward pass, after recomputation and
    a repeated redistribution."""
    if again[e] < 0:
        v = edges[e, EDGE_VALUE]
        if shared_again[v] < 0:
            base = recomputed_at[values[v, VALUE_PRODUCER]]
            base = base if base >= 0 else gradient_ready
            chain = values[v, VALUE_THERE] if values[v, VALUE_AGAIN] else 0
            shared_again[v] = _send(chains, chain, base, ACTIVATION, True, links)
        chain = edges[e, EDGE_THERE] if edges[e, EDGE_AGAIN] else 0
        again[e] = _send(chains, chain, shared_again[v], ACTIVATION, True, links)
    end: float = again[e]
    return end


@njit(cache=True, nogil=True, inline="always")
def _send(
    chains: Chains, chain: int, need: float, kind: int, timed: bool, links: LinkState
) -> float:
    """End of a chain that starts at `need`, before later activations delay it."""
    if chain != NOTHING:
        # conversions, as constants would make the compiler specialize the function for each
        need = _send_all(chains, chain, need, np.int64(kind), bool(timed), links)
    return need


@njit(cache=True, nogil=True)
def _send_all(
    chains: Chains, chain: int, need: float, kind: np.int64, timed: bool, links: LinkState
) -> float:
    for k in range(chains.first[chain], chains.first[chain + 1]):
        link, ns = chains.link[k], chains.ns[k]
        parts = 1 if kind == ACTIVATION else chains.buckets[k]
        links.moved[kind, link, COUNT] += parts
        links.moved[kind, link, TIME] += ns
        links.moved[kind, link, SQUARES] += ns * ns / parts
        if not timed:
            continue
        waiting = links.waiting[link]
        if kind == ACTIVATION:
            need = _begin(max(need, links.ends[kind, link]), ns, waiting) + ns
        else:
            need = _beside(need, ns, parts, links.ends[ACTIVATION, link], waiting)
        links.ends[kind, link] = max(links.ends[kind, link], need)
    return need


@njit(cache=True, nogil=True)
def _place_of(chains: Chains, chain: int, links: LinkState) -> tuple[int, int]:
    """Link and row of the last collective of the chain sent last."""
    if chain == NOTHING:
        return 0, NOWHERE
    link = chains.link[chains.first[chain + 1] - 1]
    return link, int(links.waiting[link, 0, ROWS])


@njit(cache=True, nogil=True)
def _end_of(link: int, place: int, links: LinkState) -> float:
    """End of the collective in a row, before later activations delay it."""
    end: float = 0.0 if place == NOWHERE else links.waiting[link, place, END]
    return end


@njit(cache=True, nogil=True)
def _settle(kind: np.int64, links: LinkState) -> None:
    """Final ends of deferrable collectives of a kind, after the last activation."""
    for link in range(len(links.waiting)):
        rows = int(links.waiting[link, 0, ROWS])
        if rows:
            links.ends[kind, link] = max(links.ends[kind, link], links.waiting[link, rows, END])


@njit(cache=True, nogil=True)
def _begin(begin: float, ns: float, waiting: FloatArray) -> float:
    """Begin of an activation that is ready at `begin`; deferrable collectives move behind it."""
    rows, next_one = int(waiting[0, ROWS]), int(waiting[0, DONE]) + 1
    while next_one <= rows and waiting[next_one, END] <= begin:
        next_one += 1
    behind, free = next_one, begin + ns
    if next_one <= rows and waiting[next_one, START] < begin:
        start, end, buckets = (
            waiting[next_one, START],
            waiting[next_one, END],
            waiting[next_one, BUCKETS],
        )
        bucket = (end - start) / buckets
        done = np.ceil((begin - start) / bucket - CLOSE)
        begin = max(begin, start + done * bucket)
        free, behind = begin + ns, next_one + 1
        if done < buckets:
            waiting[next_one, START], waiting[next_one, BUCKETS] = free, buckets - done
            free += (buckets - done) * bucket
            waiting[next_one, END] = free
        else:
            next_one += 1
    waiting[0, DONE], waiting[0, BEGUN] = next_one - 1, begin
    for k in range(behind, rows + 1):
        start = max(waiting[k, READY], free)
        if waiting[k, START] >= start:
            break
        free = start + waiting[k, END] - waiting[k, START]
        waiting[k, START], waiting[k, END] = start, free
    return begin


@njit(cache=True, nogil=True)
def _beside(
    need: float, ns: float, buckets: int, activations_end: float, waiting: FloatArray
) -> float:
    """End of a deferrable collective, before later activations delay it."""
    rows = int(waiting[0, ROWS]) + 1
    start = need if rows == 1 else max(need, waiting[rows - 1, END])
    if start + ns > waiting[0, BEGUN]:
        start = max(start, activations_end)
    waiting[0, ROWS] = rows
    waiting[rows, READY], waiting[rows, START] = need, start
    waiting[rows, END], waiting[rows, BUCKETS] = start + ns, buckets
    return start + ns
