"""Stage DAG of two half batches that take turns, from the DAG of one half.

Each half has its own ops, values and redistributions
(`meshwright_solver.evaluation.accounting.half_batch_segments`). Both halves share parameters: the
first half gathers them, and gradients are reduced once both halves have accumulated theirs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.accounting.half_batch_segments import HALVES, in_legs, legs_of
from meshwright_solver.evaluation.step_time.collective_chains import NOTHING
from meshwright_solver.evaluation.step_time.columns import (
    EDGE_BACK,
    EDGE_GATHER,
    EDGE_OFTEN,
    EDGE_ONCE,
    EDGE_PORT,
    EDGE_READER,
    EDGE_THERE,
    EDGE_VALUE,
    NOBODY,
    OP_AGAIN,
    OP_SEGMENT,
    VALUE_BACK,
    VALUE_GATHER,
    VALUE_OFTEN,
    VALUE_PRODUCER,
    VALUE_THERE,
)
from meshwright_solver.evaluation.step_time.stage_dag import StageDag, indexed


def in_halves(dag: StageDag) -> StageDag:
    """Stage DAG of both halves."""
    count, values = len(dag.ops), len(dag.values)
    half, op = in_legs(legs_of(_moves(dag), _holds(dag)))
    place = np.zeros((HALVES, count), dtype=np.int64)
    place[half, op] = np.arange(len(op))
    ops = dag.ops[op].copy()
    segment = ops[:, OP_SEGMENT]
    ops[:, OP_SEGMENT] = np.where(segment >= 0, HALVES * segment + half, NOBODY)
    is_parameter = dag.values[:, VALUE_PRODUCER] < 0
    all_edges, all_values = [], []
    for h in range(HALVES):
        edges = dag.edges.copy()
        edges[:, EDGE_READER] = place[h, edges[:, EDGE_READER]]
        of_parameter = is_parameter[edges[:, EDGE_VALUE]]
        if h:
            edges[of_parameter, EDGE_GATHER : EDGE_ONCE + 1] = NOTHING
            edges[~of_parameter, EDGE_VALUE] += h * values
        half_values = dag.values.copy()
        producer = half_values[:, VALUE_PRODUCER]
        half_values[:, VALUE_PRODUCER] = np.where(is_parameter, NOBODY, place[h, producer])
        all_edges.append(edges)
        all_values.append(half_values)
    edges = np.concatenate(all_edges)
    edges = edges[np.lexsort((edges[:, EDGE_PORT], edges[:, EDGE_READER]))]
    host = np.concatenate([dag.host, np.zeros_like(dag.host)])
    return indexed(
        replace(
            dag,
            ops=ops,
            ns=dag.ns[op],
            edges=edges,
            values=np.concatenate(all_values),
            host=host,
        )
    )


def _moves(dag: StageDag) -> NDArray[np.bool_]:
    """By op, whether anything moves between the op and earlier ops."""
    moves = np.zeros(len(dag.ops) + 1, dtype=np.bool_)
    op_moves = (dag.ops[:, : OP_AGAIN + 1] != NOTHING).any(axis=1)
    moves[:-1] |= op_moves
    moves[1:] |= op_moves
    edges = dag.edges
    moved = (edges[:, [EDGE_THERE, EDGE_BACK]] != NOTHING).any(axis=1)
    moves[edges[moved, EDGE_READER]] = True
    # a redistribution that readers share belongs to the first of them
    value, first = np.unique(edges[:, EDGE_VALUE], return_index=True)
    ways = dag.values[value][:, [VALUE_THERE, VALUE_BACK]]
    shared = (ways != NOTHING).any(axis=1) & (dag.values[value, VALUE_PRODUCER] >= 0)
    moves[edges[first[shared], EDGE_READER]] = True
    return moves[:-1]


def _holds(dag: StageDag) -> IntArray:
    """By op, buckets of parameters that it is the first to need, and of gradients that it is the
    last to produce."""
    chains, edges = dag.chains, dag.edges
    behind = np.concatenate([[0], np.cumsum(chains.buckets)])
    buckets = behind[chains.first[1:]] - behind[chains.first[:-1]]
    bucket_counts = np.zeros(len(dag.ops), dtype=np.int64)
    for chain in (EDGE_GATHER, EDGE_OFTEN):
        np.add.at(bucket_counts, edges[:, EDGE_READER], buckets[edges[:, chain]])
    value, first = np.unique(edges[:, EDGE_VALUE], return_index=True)
    for chain in (VALUE_GATHER, VALUE_OFTEN):
        np.add.at(bucket_counts, edges[first, EDGE_READER], buckets[dag.values[value, chain]])
    return bucket_counts
