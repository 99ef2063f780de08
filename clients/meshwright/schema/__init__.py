"""The contract between clients, planner and service: frozen documents, valid from birth."""

from meshwright.schema.calibration import Calibration, Efficiency, Exposed, OpClass, Traffic
from meshwright.schema.certificate import Certificate
from meshwright.schema.errors import (
    ConversionError,
    GraphError,
    InvalidInput,
    LayoutError,
    MeshwrightError,
    NotFound,
    PlanError,
    RequestError,
    RuleError,
    SetupError,
    TooLarge,
    TopologyError,
    Unavailable,
)
from meshwright.schema.graph import DTYPE_BYTES, Graph, Op, Tensor
from meshwright.schema.layout import Dim, Layout, LayoutPair, SubDim
from meshwright.schema.mesh import Axis, Mesh, MeshAxis, Rank
from meshwright.schema.model import Document, Model
from meshwright.schema.notation import Factor, Notation, parse_notation
from meshwright.schema.pipeline import Passes, Pipeline, Received, Schedule, ScheduleKind
from meshwright.schema.plan import (
    Considered,
    Cost,
    Finding,
    MemoryUse,
    OpPlan,
    OwnStep,
    Padding,
    ParameterPlan,
    Plan,
    Redistribution,
    Search,
    Stage,
    Step,
    TensorPlan,
)
from meshwright.schema.request import (
    Answer,
    Budget,
    Constraints,
    Infeasible,
    OptimizerParallel,
    Pin,
    Progress,
    Request,
)
from meshwright.schema.rule import ShardingRule
from meshwright.schema.setup import Optimizer, Setup
from meshwright.schema.topology import Device, Level, Link, Topology

__all__ = [
    "DTYPE_BYTES", "Answer", "Axis", "Budget", "Calibration", "Certificate", "Considered",
    "Constraints",
    "ConversionError", "Cost", "Device", "Dim", "Document", "Efficiency", "Exposed", "Factor",
    "Finding", "Graph", "GraphError", "Infeasible", "InvalidInput", "Layout", "LayoutError",
    "LayoutPair", "Level", "Link", "MemoryUse", "Mesh", "MeshAxis", "MeshwrightError", "Model",
    "NotFound", "Notation", "Op", "OpClass", "OpPlan", "Optimizer", "OptimizerParallel", "OwnStep",
    "Padding", "ParameterPlan", "Passes", "Pin", "Pipeline", "Plan", "PlanError", "Progress",
    "Rank", "Received", "Redistribution", "Request", "RequestError", "RuleError", "Schedule",
    "ScheduleKind", "Search", "Setup", "SetupError", "ShardingRule", "Stage", "Step", "SubDim",
    "Tensor", "TensorPlan", "TooLarge", "Topology", "TopologyError", "Traffic", "Unavailable",
    "parse_notation",
]  # fmt: skip
