"""The documents of clients, planner and service: immutable models, valid after construction."""

from meshwright.schema.cache import Cache
from meshwright.schema.calibration import Calibration, Efficiency, Exposed, OpClass, Traffic
from meshwright.schema.certificate import Certificate
from meshwright.schema.collective_step import Step
from meshwright.schema.constraints import Constraints, OptimizerParallel
from meshwright.schema.cost import Cost, MemoryUse, Moment
from meshwright.schema.degrees import Degrees
from meshwright.schema.errors import (
    CheckpointError,
    ConversionError,
    Forbidden,
    GraphError,
    InUse,
    InvalidInput,
    LayoutError,
    MeshwrightError,
    ModuleMismatch,
    NotFound,
    PlanError,
    RankLost,
    RequestError,
    RuleError,
    SetupError,
    TooLarge,
    TooManyJobs,
    TopologyError,
    Unauthorized,
    Unavailable,
)
from meshwright.schema.fusion import Fusion
from meshwright.schema.graph import DTYPE_BYTES, Graph, Op, Tensor
from meshwright.schema.layout import Dim, Layout, LayoutPair, SubDim
from meshwright.schema.mesh import Axis, Mesh, MeshAxis, Rank
from meshwright.schema.model import Document, Model
from meshwright.schema.notation import Factor, Notation, parse_notation
from meshwright.schema.pin import Pin
from meshwright.schema.pipeline import Passes, Pipeline, Received, Schedule, ScheduleKind
from meshwright.schema.plan import Padding, Plan
from meshwright.schema.recompute import Recompute, Recomputed, RecomputePolicy, Segment
from meshwright.schema.request import Answer, Infeasible, Progress, Request
from meshwright.schema.request_options import Budget, Wishes
from meshwright.schema.request_patch import RequestPatch
from meshwright.schema.rule import ShardingRule
from meshwright.schema.search_record import Considered, Finding, Search
from meshwright.schema.sequence_order import LoadedDim, SequenceOrder
from meshwright.schema.setup import Execution, Optimizer, Setup, microbatch_symbols, step_batch
from meshwright.schema.stage import (
    Bucket,
    OpPlan,
    OwnStep,
    ParameterPlan,
    Redistribution,
    Stage,
    TensorPlan,
)
from meshwright.schema.topology import Device, DeviceGroup, Host, Level, Link, Topology

__all__ = [
    "DTYPE_BYTES",
    "Answer",
    "Axis",
    "Bucket",
    "Budget",
    "Cache",
    "Calibration",
    "Certificate",
    "CheckpointError",
    "Considered",
    "Constraints",
    "ConversionError",
    "Cost",
    "Degrees",
    "Device",
    "DeviceGroup",
    "Dim",
    "Document",
    "Efficiency",
    "Execution",
    "Exposed",
    "Factor",
    "Finding",
    "Forbidden",
    "Fusion",
    "Graph",
    "GraphError",
    "Host",
    "InUse",
    "Infeasible",
    "InvalidInput",
    "Layout",
    "LayoutError",
    "LayoutPair",
    "Level",
    "Link",
    "LoadedDim",
    "MemoryUse",
    "Mesh",
    "MeshAxis",
    "MeshwrightError",
    "Model",
    "ModuleMismatch",
    "Moment",
    "NotFound",
    "Notation",
    "Op",
    "OpClass",
    "OpPlan",
    "Optimizer",
    "OptimizerParallel",
    "OwnStep",
    "Padding",
    "ParameterPlan",
    "Passes",
    "Pin",
    "Pipeline",
    "Plan",
    "PlanError",
    "Progress",
    "Rank",
    "RankLost",
    "Received",
    "Recompute",
    "RecomputePolicy",
    "Recomputed",
    "Redistribution",
    "Request",
    "RequestError",
    "RequestPatch",
    "RuleError",
    "Schedule",
    "ScheduleKind",
    "Search",
    "Segment",
    "SequenceOrder",
    "Setup",
    "SetupError",
    "ShardingRule",
    "Stage",
    "Step",
    "SubDim",
    "Tensor",
    "TensorPlan",
    "TooLarge",
    "TooManyJobs",
    "Topology",
    "TopologyError",
    "Traffic",
    "Unauthorized",
    "Unavailable",
    "Wishes",
    "microbatch_symbols",
    "parse_notation",
    "step_batch",
]  # fmt: skip
