"""What starting an op takes in a stack."""

from __future__ import annotations

import pytest

from meshwright.schema import Execution, OpClass
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.launch_overhead import GRAPH_NODE_NS, launch_ns

LAUNCH_NS = datasheet_calibration().launch_ns


@pytest.mark.parametrize(
    ("execution", "op_class", "ns"),
    [
        ("eager", "matmul", LAUNCH_NS), ("eager", "memory", LAUNCH_NS),
        ("compiled", "matmul", LAUNCH_NS), ("compiled", "memory", 0),
        ("graphs", "matmul", GRAPH_NODE_NS), ("graphs", "memory", 0),
    ],
)  # fmt: skip
def test_a_stack_decides_what_an_op_takes_to_start(
    execution: Execution, op_class: OpClass, ns: int
) -> None:
    assert launch_ns(datasheet_calibration(), execution, op_class) == ns


def test_a_host_that_is_quicker_than_a_graph_stays_so() -> None:
    quick = datasheet_calibration().model_copy(update={"launch_ns": 200})
    assert launch_ns(quick, "graphs", "matmul") == 200
