"""What waits on a link, by hand: an activation meets a bucket, buckets make room for it."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.evaluation.step_time.collective_chains import Chains
from meshwright_solver.evaluation.step_time.columns import (
    EDGE_COLUMNS,
    EDGE_GATHER,
    EDGE_PORT,
    EDGE_READER,
    EDGE_THERE,
    EDGE_VALUE,
    NOBODY,
    OP_COLUMNS,
    OP_SEGMENT,
    VALUE_COLUMNS,
    VALUE_PRODUCER,
)
from meshwright_solver.evaluation.step_time.pass_times import forward, forward_from_rest
from meshwright_solver.evaluation.step_time.stage_dag import StageDag, indexed

FIRST, SENT, SECOND = 1, 2, 3  # chains


def course(first_ns: float, sent_ns: float, second_ns: float, buckets: int) -> StageDag:
    """Op a (10 ns, one parameter) sends what it makes to op b (10 ns, another parameter)."""
    ops = np.zeros((2, OP_COLUMNS), dtype=np.int64)
    ops[:, OP_SEGMENT] = NOBODY
    values = np.zeros((3, VALUE_COLUMNS), dtype=np.int64)
    values[:, VALUE_PRODUCER] = [0, NOBODY, NOBODY]
    edges = np.zeros((3, EDGE_COLUMNS), dtype=np.int64)
    edges[:, EDGE_READER], edges[:, EDGE_PORT] = [0, 1, 1], [0, 0, 1]
    edges[:, EDGE_VALUE] = [1, 0, 2]
    edges[0, EDGE_GATHER], edges[1, EDGE_THERE], edges[2, EDGE_GATHER] = FIRST, SENT, SECOND
    chains = Chains(
        first=np.array([0, 0, 1, 2, 3]), link=np.zeros(3, dtype=np.int64),
        ns=np.array([first_ns, sent_ns, second_ns]), buckets=np.array([1, 1, buckets]),
    )  # fmt: skip
    nothing = np.zeros(0, dtype=np.int64)
    return indexed(
        StageDag(
            chains=chains, links=1, ops=ops, ns=np.full((2, 3), 10.0), edges=edges,
            edge_first=nothing, values=values, output_first=nothing, outputs=nothing,
            segment_first=nothing, segments=nothing, host=np.zeros((3, 3)), update_ns=0.0,
            between_ns=0.0,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first_ns", "sent_ns", "second_ns", "buckets", "longest"),
    [
        # gathers 0-4 and 4-7, a 4-14, sent 14-20, b 20-30: nothing meets
        (4.0, 6.0, 3.0, 1, 30.0),
        # gathers 0-4 and 4-24 in one piece, a 4-14; what is sent waits: 24-30, b 30-40
        (4.0, 6.0, 20.0, 1, 40.0),
        # in two, 4-14 and 14-24: sent 14-20 before the second, which ends at 30, b 30-40
        (4.0, 6.0, 20.0, 2, 40.0),
        # in four of 5: sent at the end of the third, 4-19, so 19-25; the rest to 30, b 30-40
        (4.0, 6.0, 20.0, 4, 40.0),
        # gathers 0-4 and 4-22 in one piece, sent 22-28, b 28-38
        (4.0, 6.0, 18.0, 1, 38.0),
        # gathers 0-20 and 20-22, a 20-30, sent 30-36, b 36-46
        (20.0, 6.0, 2.0, 1, 46.0),
    ],
)
def test_an_activation_waits_for_the_bucket_that_it_meets(
    first_ns: float, sent_ns: float, second_ns: float, buckets: int, longest: float
) -> None:
    found = course(first_ns, sent_ns, second_ns, buckets)
    assert forward_from_rest(found).longest_ns == longest
    # parameters that are there: a 0-10, sent 10-16, b 16-26
    assert forward(found).longest_ns == 20 + sent_ns
