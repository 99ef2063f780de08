"""What starting an op's kernels takes, by the stack that runs the program.

    stack       memory-bound ops          all others
    eager       launch                    launch
    compiled    0, in others' kernels     launch
    graphs      0, in others' kernels     min(launch, GRAPH_NODE_NS)

launch: the calibration's, which the host decides. A recorded program (a CUDA graph, an ACL graph)
is given to the device whole, and what is left between two kernels is the device's own.
"""

from __future__ import annotations

from meshwright.schema import Calibration, Execution, OpClass

# chosen: in a graph a kernel of 2.9 µs took 3.4 (V100; A. Gray, "Getting Started with CUDA Graphs",
# NVIDIA, 2019), one after the other in a stream 3.8, waited for each time 9.6
GRAPH_NODE_NS = 500


def launch_ns(calibration: Calibration, execution: Execution, op_class: OpClass) -> int:
    """What one op of a class takes to start in a stack, in ns."""
    if execution == "eager":
        return calibration.launch_ns
    if op_class == "memory":
        return 0
    if execution == "graphs":
        return min(calibration.launch_ns, GRAPH_NODE_NS)
    return calibration.launch_ns
