"""Launch overhead of an op's kernels, by execution stack.

    stack       memory-bound ops          all others
    eager       launch                    launch
    compiled    0, in others' kernels     launch
    graphs      0, in others' kernels     min(launch, GRAPH_NODE_NS)

A product with a weight for each of its groups, such as the experts of a device, has launches for
each group besides (`Rates.group_launches`).

launch is the calibration's launch time, which depends on the host. A recorded program (a CUDA
graph, an ACL graph) is submitted as a whole, and only the device's time between kernels remains.
"""

from __future__ import annotations

from meshwright.schema import Calibration, Execution, OpClass

# chosen: in a graph a kernel of 2.9 µs took 3.4 (V100; A. Gray, "Getting Started with CUDA Graphs",
# NVIDIA, 2019), one after the other in a stream 3.8, waited for each time 9.6
GRAPH_NODE_NS = 500


def launch_ns(calibration: Calibration, execution: Execution, op_class: OpClass) -> int:
    """The launch time of one op of a class in a stack, in ns."""
    if execution == "eager":
        return calibration.launch_ns
    if op_class == "memory":
        return 0
    if execution == "graphs":
        return min(calibration.launch_ns, GRAPH_NODE_NS)
    return calibration.launch_ns
