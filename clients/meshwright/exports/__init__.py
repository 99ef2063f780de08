"""Exports of plans: files for other systems, and the steps that train with them."""

from meshwright.exports.exported import (
    GRAPH_FORMATS,
    EveryTarget,
    Exported,
    exported,
    exported_graph,
)
from meshwright.exports.launch_guide import LaunchFile, LaunchGuide, launch_file, launch_guide

__all__ = [
    "GRAPH_FORMATS",
    "EveryTarget",
    "Exported",
    "LaunchFile",
    "LaunchGuide",
    "exported",
    "exported_graph",
    "launch_file",
    "launch_guide",
]
