"""The training setup: what the graph does not say."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from meshwright.schema.cache import Cache
from meshwright.schema.cuts import Cuts
from meshwright.schema.errors import SetupError
from meshwright.schema.fusion import Fusion
from meshwright.schema.graph import DType, Graph
from meshwright.schema.model import Document, Model, Number, Whole
from meshwright.schema.sequence_order import Order
from meshwright.schema.within import said_where

Execution = Literal["eager", "compiled", "graphs"]


class Optimizer(Model):
    """An optimizer by what it keeps: `states` values of `state_dtype` an element."""

    name: str = "adamw"
    states: Whole = Field(default=2, ge=0, le=64)  # chosen: far beyond any optimizer
    state_dtype: DType = "float32"


class Setup(Document):
    """How the graph is run.

    symbols: values over the graph's own, e.g. another sequence length.
    global_batch: the graph's symbol `batch` over one optimizer step; None = the graph's value.
    microbatches: forward and backward passes whose gradients are accumulated in one step; None =
    the fewest, by doubling, for which a plan fits in memory.
    copies: 2 where microbatches go in pairs that take turns, so that one communicates while the
    other computes (the halves of a batch): `microbatches` counts the halves. `auto`: where that is
    faster; the plan says it.
    execution: compiled stacks fuse memory-bound ops into their neighbours' kernels; what of these
    the gradients need they make again there from what is kept anyway, eager ones keep it. `graphs`:
    compiled, recorded and replayed (CUDA graphs, ACL graphs), so that the host launches next to
    nothing.
    gradients: over the batch; for the runtime, no cost depends on it.
    master_dtype: a copy of the parameters that the optimizer updates; None = no copy.
    uneven: sizes that axes do not divide: `refuse` leaves them whole; `chunk` cuts them into equal
    chunks of which the last are short or empty; `pad` stores these filled up to equal shapes.
    allow_all_to_all: where false, what an all-to-all would do is done by all-gather and slice, and
    no op makes one by itself.
    dataset: how inputs and labels are loaded. `any`: each device loads the parts that it needs;
    `full_batch`: every device loads all; `data_parallel`: dim 0 is cut over all devices; or the
    cuts of every input and label, in their order in the graph, null for `any`.
    fusion: of collectives of parameters and gradients, which then share a latency.
    sequence_order: `zigzag` loads what causal attention runs over so that parts of it are as much
    work (balanced context parallelism); the plan says in which order.
    expert_imbalance: tokens of the busiest expert over the mean of all, where experts have no fixed
    capacity; devices that share experts between them wait for the busiest.
    cache: of keys and values, for inference; its sequences are those of the batch.
    memory_reserve: the share of a device's memory that is left free, for fragmentation, the
    framework and its libraries.
    """

    prefix: ClassVar[str] = "setup"
    error: ClassVar[type[SetupError]] = SetupError

    schema_version: Literal[1] = 1
    phase: Literal["training", "inference"] = "training"
    symbols: dict[str, Whole] = Field(default_factory=dict)
    global_batch: Whole | None = Field(default=None, ge=1)
    microbatches: Whole | None = Field(default=None, ge=1)
    copies: Literal[1, 2, "auto"] = 1
    optimizer: Optimizer = Optimizer()
    gradient_dtype: DType = "float32"
    master_dtype: DType | None = "float32"
    gradients: Literal["mean", "sum"] = "mean"
    execution: Execution = "compiled"
    uneven: Literal["refuse", "chunk", "pad"] = "refuse"
    allow_all_to_all: StrictBool = True
    dataset: Literal["any", "full_batch", "data_parallel"] | tuple[Cuts | None, ...] = "any"
    fusion: Fusion = Fusion()
    sequence_order: Order = "contiguous"
    expert_imbalance: Number = Field(
        default=1.0, ge=1, le=1e6
    )  # chosen: beyond any experts' number
    cache: Cache | None = None
    memory_reserve: Number = Field(default=0.1, ge=0, lt=1)

    _said_where = field_validator("fusion", mode="wrap")(said_where)

    @property
    def least_copies(self) -> int:
        """How many microbatches take turns in every plan."""
        return 1 if self.copies == "auto" else self.copies

    @model_validator(mode="after")
    def _valid(self) -> Setup:
        if self.global_batch is not None and self.global_batch % (self.microbatches or 1):
            raise SetupError(
                f"a global batch of {self.global_batch} cannot be cut into {self.microbatches} "
                "equal microbatches",
                pointer="/microbatches",
            )
        if (self.microbatches or self.least_copies) % self.least_copies:
            raise SetupError(
                f"{self.microbatches} microbatches cannot take turns in pairs; "
                f"{(self.microbatches or 0) + 1} would do",
                pointer="/microbatches",
            )
        if self.cache is not None and self.least_copies > 1:
            raise SetupError(
                "all sequences of the batch are in the cache at one time, and none take turns; "
                "copies 1 would do",
                pointer="/copies",
            )
        if self.cache is not None and self.phase == "training":
            raise SetupError(
                "a cache of keys and values is for the phase inference; training has none",
                pointer="/cache",
            )
        if self.cache is not None and (self.microbatches or 1) > 1:
            raise SetupError(
                f"all sequences of the batch are in the cache at one time, so {self.microbatches} "
                "microbatches would save nothing; 1 or a smaller batch would do",
                pointer="/microbatches",
            )
        return self


def step_batch(graph: Graph, setup: Setup) -> int | None:
    """The batch of one optimizer step; None where the graph has no symbol for it."""
    if "batch" not in graph.symbols:
        return None
    return setup.global_batch or setup.symbols.get("batch") or graph.symbols["batch"]
