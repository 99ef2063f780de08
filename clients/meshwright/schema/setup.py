"""The training setup: batch, precision, optimizer and execution of a graph."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from meshwright.schema.cache import Cache
from meshwright.schema.dim_cuts import Cuts
from meshwright.schema.error_pointer import error_within_field
from meshwright.schema.errors import InvalidInput, SetupError
from meshwright.schema.fusion import Fusion
from meshwright.schema.graph import DTYPE_BYTES, DType, Graph
from meshwright.schema.model import Document, Model, Number, Whole
from meshwright.schema.sequence_order import Order
from meshwright.schema.stack import Stack

Execution = Literal["eager", "compiled", "graphs"]
Precision = Literal["graph", "fp8_tensorwise", "fp8_blockwise", "mxfp8"]


class Optimizer(Model):
    """An optimizer, described by the memory of its states."""

    error: ClassVar[type[InvalidInput]] = SetupError

    name: str = Field(default="adamw", description="The name of the optimizer.")
    states: Whole = Field(  # chosen: far beyond any optimizer
        default=2, ge=0, le=64, description="The number of state values per element."
    )
    state_dtype: DType = Field(default="float32", description="The dtype of the states.")


class Setup(Document):
    """A training setup: how a graph is run."""

    prefix: ClassVar[str] = "setup"
    error: ClassVar[type[SetupError]] = SetupError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    phase: Literal["training", "inference"] = Field(
        default="training",
        description="The phase of the model's life: training, or inference without a backward "
        "pass.",
    )
    symbols: dict[str, Whole] = Field(
        default_factory=dict,
        description="The values that replace those of the graph's symbols, such as another "
        "sequence length.",
    )
    global_batch: Whole | None = Field(
        default=None,
        ge=1,
        description="The value of the symbol `batch` over one optimizer step. None: the graph's "
        "value.",
    )
    microbatches: Whole | None = Field(
        default=None,
        ge=1,
        description="The number of microbatches whose gradients a step accumulates. None: the "
        "search doubles the number until a plan fits in memory, and while the step becomes "
        "shorter.",
    )
    copies: Literal[1, 2, "auto"] = Field(
        default=1,
        description="The number of microbatches that alternate, so that one communicates while "
        "the other computes. With 2, `microbatches` counts the halves. `auto`: 2 if this is "
        "faster.",
    )
    optimizer: Optimizer = Field(default=Optimizer(), description="The optimizer.")
    gradient_dtype: DType = Field(
        default="float32", description="The dtype of accumulated gradients."
    )
    master_dtype: DType | None = Field(
        default="float32",
        description="The dtype of the master copy of the parameters that the optimizer updates. "
        "None: no copy.",
    )
    gradients: Literal["mean", "sum"] = Field(
        default="mean",
        description="The reduction of gradients over the batch. It does not change the cost.",
    )
    execution: Execution = Field(
        default="compiled",
        description="The execution mode. `eager`: op by op. `compiled`: memory-bound ops are "
        "fused into neighboring kernels and recomputed there for the backward pass. `graphs`: "
        "compiled, recorded and replayed (CUDA graphs, ACL graphs), with almost no launch time.",
    )
    precision: Precision = Field(
        default="graph",
        description="The precision of products with large weights. `graph`: the dtypes of the "
        "graph. The others multiply in 8 bits, with one scale for a tensor (`fp8_tensorwise`), for "
        "128 elements of an activation and 128 x 128 of a weight (`fp8_blockwise`), or for 32 "
        "elements (`mxfp8`). The vocabulary head, routers, attention, gradients and optimizer "
        "states keep their dtypes.",
    )
    stack: Stack | None = Field(
        default=None,
        description="The software stack that trains. Predicted times are longer by what its "
        "published runs took beyond the prediction. It does not change a calibration of the "
        "request. None: a stack that fuses and overlaps all that a plan assumes.",
    )
    uneven: Literal["refuse", "chunk", "pad"] = Field(
        default="refuse",
        description="The handling of sizes that axes do not divide. `refuse`: no sharding. "
        "`chunk`: equal chunks, of which the last are short or empty. `pad`: chunks padded to "
        "equal length.",
    )
    allow_all_to_all: StrictBool = Field(
        default=True,
        description="Whether plans may use all-to-all. False: all-gather and slice replace it.",
    )
    dataset: Literal["any", "full_batch", "data_parallel"] | tuple[Cuts | None, ...] = Field(
        default="any",
        description="The loading of inputs and labels. `any`: each device loads the parts that it "
        "needs. `full_batch`: each device loads everything. `data_parallel`: dim 0 is sharded "
        "over all devices. A list gives the cuts of every input and label in graph order, with "
        "null for `any`.",
    )
    fusion: Fusion = Field(
        default=Fusion(), description="The fusion of collectives of parameters and gradients."
    )
    sequence_order: Order = Field(
        default="contiguous",
        description="The order of sequences. `zigzag`: the order that balances causal attention "
        "in context parallelism.",
    )
    expert_imbalance: Number = Field(
        default=1.0,
        ge=1,
        le=1e6,  # chosen: beyond the number of experts of any model
        description="The tokens of the busiest expert relative to the mean, for experts without a "
        "fixed capacity.",
    )
    expert_dispatch: Literal["expert", "node"] = Field(
        default="expert",
        description="The copies of a token that travel to experts. `expert`: one for each chosen "
        "expert. `node`: one for each node with chosen experts, which forwards it inside (DeepEP, "
        "Megatron's flex dispatcher).",
    )
    expert_nodes: Whole | None = Field(
        default=None,
        ge=1,
        description="The nodes that the router sends a token to at most, with `expert_dispatch` "
        "`node`. None: as many as hold its experts.",
    )
    cache: Cache | None = Field(
        default=None,
        description="The key-value cache of inference, for the sequences of the batch.",
    )
    memory_reserve: Number = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="The share of device memory that stays free for fragmentation, the framework "
        "and its libraries.",
    )

    _pointer = field_validator("fusion", mode="wrap")(error_within_field)

    @property
    def usable_memory(self) -> float:
        """The share of device and host memory that a plan may use: all but the reserve."""
        return 1 - self.memory_reserve

    @property
    def least_copies(self) -> int:
        """The least number of microbatches that alternate in every plan."""
        return 1 if self.copies == "auto" else self.copies

    def optimizer_element_bytes(self, dtype: str) -> int:
        """The optimizer state per element of a parameter of this dtype, in bytes.

        It includes the master copy if the dtype of the copy is not that of the parameter.
        """
        states = self.optimizer.states * DTYPE_BYTES[self.optimizer.state_dtype]
        master = self.master_dtype
        return states + (0 if master is None or master == dtype else DTYPE_BYTES[master])

    @model_validator(mode="after")
    def _check(self) -> Setup:
        if self.global_batch is not None and self.global_batch % (self.microbatches or 1):
            raise SetupError(
                f"a global batch of {self.global_batch} cannot be cut into {self.microbatches} "
                "equal microbatches",
                pointer="/microbatches",
            )
        if (self.microbatches or self.least_copies) % self.least_copies:
            raise SetupError(
                f"{self.microbatches} microbatches cannot alternate in pairs. Use "
                f"{(self.microbatches or 0) + 1}",
                pointer="/microbatches",
            )
        if self.expert_nodes is not None and self.expert_dispatch != "node":
            raise SetupError(
                f"expert_nodes {self.expert_nodes} needs expert_dispatch node",
                pointer="/expert_nodes",
            )
        if self.cache is not None and self.least_copies > 1:
            raise SetupError(
                "all sequences of the batch are in the cache at the same time and cannot "
                "alternate. Use copies 1",
                pointer="/copies",
            )
        if self.cache is not None and self.phase == "training":
            raise SetupError(
                "a key-value cache needs the phase inference. Leave it out of training",
                pointer="/cache",
            )
        if self.cache is not None and (self.microbatches or 1) > 1:
            raise SetupError(
                "all sequences of the batch are in the cache at the same time, so that "
                f"{self.microbatches} microbatches save nothing. Use 1 or a smaller batch",
                pointer="/microbatches",
            )
        return self


def step_batch(graph: Graph, setup: Setup) -> int | None:
    """The batch of one optimizer step in samples; None if the graph has no symbol `batch`."""
    if "batch" not in graph.symbols:
        return None
    return setup.global_batch or setup.symbols.get("batch") or graph.symbols["batch"]


def microbatch_symbols(graph: Graph, setup: Setup, microbatches: int) -> dict[str, int]:
    """The values of the graph's symbols in one microbatch."""
    symbols = {**graph.symbols, **setup.symbols}
    batch = step_batch(graph, setup)
    if batch is not None:
        symbols["batch"] = batch // microbatches
    return symbols


def check_symbols(graph: Graph, setup: Setup) -> None:
    """Raise GraphError where a shape has no value with the symbols of the setup.

    In inference the planner shapes the activations: it pools the expert slots of short sequences.
    """
    if setup.phase == "inference":
        given = [tensor for tensor in graph.tensors if tensor.role != "activation"]
        graph = graph.model_copy(update={"tensors": tuple(given)})
    graph.instantiate(setup.symbols)
