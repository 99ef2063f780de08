"""Plans: the answer. Immutable, content-addressed, complete enough to be carried out.

A plan names every choice: the mesh, the strategy of every op, the layouts of every tensor at rest
and as read, the layouts of parameters, gradients and optimizer state, and the collective steps
between them. Its numbers come from `evaluate` alone.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import PlanError
from meshwright.schema.layout import Layout, LayoutPair
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model, Ns, Number
from meshwright.schema.move import PlanMove
from meshwright.schema.pipeline import Passes, Received, Schedule
from meshwright.schema.recompute import Recomputed
from meshwright.schema.sequence_order import SequenceOrder
from meshwright.schema.step import CollectiveKind, Step
from meshwright.schema.wishes import Wishes

Direction = Literal["forward", "backward", "step"]
Resting = Literal["value", "gradient", "optimizer"]
Saved = Literal["none", "rest", "read", "recomputed"]


class Bucket(Model):
    """Tensors whose steps run as one collective: gradients, or values of parameters.

    In the order in which they come about. payload_bytes: of all of them.
    """

    collective: CollectiveKind
    axes: tuple[Axis, ...]
    direction: Direction
    tensors: tuple[str, ...]
    payload_bytes: int = Field(ge=0)


class OwnStep(Model):
    """What an op moves by itself over the groups of `axes`, in every microbatch.

    statistics   are reduced before they are used again (`^`)
    candidates   the best of every part, with their places, are compared once more (top-k)
    halo         the rows that neighbours need of each other (`~`)
    ring         the local parts of all inputs that have a follower and not its leader (`t@s?`)
                 pass to the next device, `times` times; backward together with their gradients
    indices      go to the devices that hold their rows (`v@b?`)
    rows         come back from there; backward their gradients go the same way
    receive      the part of what the stage before made
    return       the part of the gradient of what the next stage got

    times: so many collectives one after the other. payload_bytes: of each. ns: of all of them.
    again: repeated in the backward pass, as the op is recomputed.
    """

    what: Literal[
        "statistics", "candidates", "halo", "ring", "indices", "rows", "receive", "return"
    ]
    kind: Literal["all_reduce", "all_gather", "send", "all_to_all"]
    axes: tuple[Axis, ...]
    direction: Literal["forward", "backward"]
    times: int = Field(default=1, ge=1)
    again: bool = False
    payload_bytes: int = Field(ge=0)
    ns: Ns


class OpPlan(Model):
    """The strategy of one op: which axes lie on which factor of its rule.

    `partial` maps an axis whose partial sums pass through the op to the first of the inputs in
    which they do. `followers`: axes on a factor that others follow by choice (`t@s?`), and so lie
    on too. `rule` is None where the kind is not known: then the op runs replicated. Times are over
    one step; communication_ns is that of `own_steps`.
    """

    naming: ClassVar[tuple[str, ...]] = ("op",)

    op: str
    kind: str
    rule: str | None
    strategy: dict[str, tuple[Axis, ...]] = Field(default_factory=dict)
    partial: dict[Axis, int] = Field(default_factory=dict)
    followers: tuple[Axis, ...] = ()
    own_steps: tuple[OwnStep, ...] = ()
    compute_ns: Ns = 0
    communication_ns: Ns = 0


class TensorPlan(Model):
    """A tensor as its producer leaves it (`rest`).

    `read` is the layout that all readers share before any converts further; None = as at rest.
    saved: what is kept for the backward pass; `recomputed` at rest, and read from there again;
    `read` of no bytes is recomputed as it is read.
    """

    naming: ClassVar[tuple[str, ...]] = ("tensor",)

    tensor: str
    rest: LayoutPair
    read: LayoutPair | None = None
    saved: Saved = "none"
    saved_bytes: int = 0


class ParameterPlan(Model):
    """Layouts of a parameter at rest, of its accumulated gradient and of its optimizer state.

    on_host: which of the three lie in hosts' memory, each device's part in its share of it, and
    take host_bytes there and nothing on the device. Where the value does, rows are looked up there.
    sparse_gradient: it is ids and rows of what was looked up; the optimizer leaves all other rows
    as they are.
    owner: coordinates of the one device, of each group over these axes, that keeps what is owned,
    the optimizer state or the gradient too, of dealt_bytes; their bytes are then the group's mean.
    host_ns: over one step, of work on the host; link_ns: of what goes to the host and back.
    """

    naming: ClassVar[tuple[str, ...]] = ("tensor",)

    tensor: str
    value: Layout
    gradient: Layout | None
    optimizer: Layout | None
    value_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    on_host: tuple[Resting, ...] = ()
    host_bytes: int = 0
    sparse_gradient: bool = False
    owner: dict[Axis, int] = Field(default_factory=dict)
    owned: tuple[Resting, ...] = ()
    dealt_bytes: int = 0
    host_ns: Ns = 0
    link_ns: Ns = 0


class Redistribution(Model):
    """The steps that take a tensor from one layout to the next.

    op: the reader, or None where all readers share the steps; input: which of its inputs, from 0,
    as one op may read a tensor several times and need it in several layouts.
    forward and backward run in every microbatch, per_step once: first the gradient to the
    optimizer, then the parameter back.
    again: the forward steps are repeated in the backward pass (the layout before them is saved).
    ns: over one optimizer step; counted_ns: what of it the objective counts.
    """

    naming: ClassVar[tuple[str, ...]] = ("tensor", "op")

    tensor: str
    op: str | None
    input: int | None = Field(default=None, ge=0)
    traffic: Literal["activation", "parameter", "gradient"]
    forward: tuple[Step, ...] = ()
    backward: tuple[Step, ...] = ()
    per_step: tuple[Step, ...] = ()
    again: bool = False
    ns: Ns = 0
    counted_ns: Ns = 0

    @property
    def peak_bytes(self) -> int:
        """Temporary memory on one device: of the largest step, as they run one after the other."""
        steps = (*self.forward, *self.backward, *self.per_step)
        return max((step.peak_bytes for step in steps), default=0)


class Padding(Model):
    """A dim of a parameter or input that is stored with zeros behind it: `padded` for `size`."""

    tensor: str
    dim: int = Field(ge=0)
    size: int = Field(ge=1)
    padded: int = Field(ge=1)


class Moment(Model):
    """What passes by on the fullest device at one moment, beside what rests there.

    at: `forward of`, `backward of` an op and the like. activations: saved until the backward pass,
    of all microbatches in flight. recomputed: made again for the backward pass. working: values and
    gradients on their way from op to op. gathered: parameters, and gradients before they are
    reduced. buffers: of what neighbouring stages send meanwhile.
    """

    at: str
    activations: int = 0
    recomputed: int = 0
    working: int = 0
    gathered: int = 0
    buffers: int = 0

    @property
    def total(self) -> int:
        passing = self.recomputed + self.working + self.gathered + self.buffers
        return self.activations + passing


class MemoryUse(Model):
    """Bytes on the fullest device at its fullest moment; host, host_capacity: of its share of its
    host's memory.

    cache: of keys and values, in inference.
    activations: saved until the backward pass, the most of it. recomputed, working, gathered,
    buffers: what the fullest moment takes beside these (`Moment`), less what it has let go of.
    reserved: left free, for fragmentation, the framework and its libraries. moment: which it is.
    """

    parameters: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    cache: int = 0
    recomputed: int = 0
    working: int = 0
    gathered: int = 0
    buffers: int = 0
    reserved: int = 0
    capacity: int = 0
    host: int = 0
    host_capacity: int = 0
    moment: str = ""

    @property
    def total(self) -> int:
        rest = self.parameters + self.gradients + self.optimizer + self.cache + self.reserved
        return rest + self.activations + self.passing

    @property
    def passing(self) -> int:
        """What comes and goes within a microbatch."""
        return self.recomputed + self.working + self.gathered + self.buffers


class Cost(Model):
    """What `evaluate` says of a plan, for one optimizer step on one device.

    step_ns: with what runs beside other things, in closed form; it is compute_ns, what is left of
    communication (exposed_ns, by traffic) and bubble_ns, what a pipeline rank waits for others. Of
    several ranks these are of a device of the one that works longest. Traffic of hosts is what goes
    there and back, and their work.
    objective_ns: what the search minimised. Of one stage: compute and fixed shares of
    communication_ns, which adds up; of a pipeline: the step itself.
    """

    step_ns: Ns
    objective_ns: Ns
    compute_ns: Ns
    bubble_ns: Ns = 0
    communication_ns: dict[str, Number]
    exposed_ns: dict[str, Number]
    memory_bytes: MemoryUse


class Stage(Model):
    """One pipeline stage. `ranks_from` is the first rank of its mesh.

    uneven: what it does with sizes that axes do not divide: what the setup allows, or `refuse`
    where that is faster. pipeline_rank: several stages may share it. in_flight: of so many
    microbatches it holds the saved activations at one time. recompute: what is done again in the
    backward pass; compute_ns of these ops counts it. moments: the fullest of every pass. receives,
    passes, memory_bytes: of plans with several stages; tensors received are made by ops of kind
    `receive`. buckets: what is fused, as the setup says.
    """

    mesh: Mesh
    ranks_from: int = 0
    pipeline_rank: int = 0
    in_flight: int = Field(default=1, ge=1)
    receives: tuple[Received, ...] = ()
    passes: Passes | None = None
    memory_bytes: MemoryUse | None = None
    moments: tuple[Moment, ...] = ()
    recompute: Recomputed | None = None
    uneven: Literal["refuse", "chunk", "pad"] = "refuse"
    ops: tuple[OpPlan, ...]
    tensors: tuple[TensorPlan, ...]
    parameters: tuple[ParameterPlan, ...]
    redistributions: tuple[Redistribution, ...]
    buckets: tuple[Bucket, ...] = ()

    @model_validator(mode="after")
    def _repeats_its_own(self) -> Stage:
        if self.recompute is not None:
            own = {op.op for op in self.ops}
            for op in (op for segment in self.recompute.segments for op in segment.ops):
                if op not in own:
                    raise PlanError(
                        f"a segment of recompute has the op {op!r}, which the stage has not"
                    )
        return self


class Finding(Model):
    """A step forward: a search found a cheaper plan, of `cost_ns`, on a mesh."""

    search: str
    mesh: str
    cost_ns: Number


class Considered(Model):
    """A configuration that was looked at: what was estimated of it, what its plan costs.

    cost_ns: None where it was not planned. memory_bytes: on the fullest device, of its plan, or
    estimated as the time is. on_front: nothing else that was looked at is at once as fast and
    smaller. why: in what it falls short of the plan.
    """

    configuration: str
    estimated_ns: Number
    cost_ns: Number | None = None
    memory_bytes: int | None = None
    on_front: bool = False
    why: str


class Search(Model):
    """How the plan was found and what is proven of it.

    found_by: the search that found this plan. history: the cheaper plans in the order in which they
    were found. faster_ns: what this plan costs more than the last of them, for a shorter step;
    simplicity_ns: and for being simpler. cost_ns, the plan's `objective_ns`, is what all of this is
    of: lower_bound_ns holds for the objective of every plan over the `meshes` listed, gap is
    relative to cost_ns, outcome is `optimal` where the cheapest plan found is proved to be.
    considered: other configurations, of pipelines, the best first; all that are on the front.
    step_bound_ns: of a search for pipelines, no configuration that was asked for has a shorter
    step, whether it was planned or not; None where that is not proved.
    """

    found_by: str
    outcome: Literal["optimal", "feasible"]
    cost_ns: Number
    lower_bound_ns: Number
    gap: Number
    meshes: tuple[str, ...]
    history: tuple[Finding, ...] = ()
    considered: tuple[Considered, ...] = ()
    faster_ns: Number = 0.0
    simplicity_ns: Number = 0.0
    step_bound_ns: Number | None = None


class Plan(Document):
    """A complete answer to one request.

    wishes: what was asked for beside the documents. schedule: of plans with several stages.
    copies: microbatches that take turns, where the setup leaves that to the search.

    repeated_work: the share of the arithmetic that devices do in vain because others do it too; a
    device that waits for longer chunks than its own repeats nothing. padding: what is filled up.
    order: in which sequences are loaded, for even work of causal attention; none is contiguous.
    move: of a job that ran another plan before, what it costs to get here.
    """

    prefix: ClassVar[str] = "plan"
    error: ClassVar[type[PlanError]] = PlanError

    schema_version: Literal[1] = 1
    name: str = ""
    graph: str
    topology: str
    setup: str
    calibration: str
    wishes: Wishes = Wishes()
    microbatches: int = Field(default=1, ge=1)
    copies: Literal[1, 2] | None = None
    stages: tuple[Stage, ...]
    schedule: Schedule | None = None
    cost: Cost
    search: Search
    repeated_work: Number = Field(default=0.0, ge=0, le=1)
    unknown_kinds: tuple[str, ...] = ()
    padding: tuple[Padding, ...] = ()
    order: tuple[SequenceOrder, ...] = ()
    move: PlanMove | None = None
    notes: tuple[str, ...] = ()

    @property
    def peak_bytes(self) -> int:
        """Temporary memory of the largest redistribution, on one device."""
        moved = (moved for stage in self.stages for moved in stage.redistributions)
        return max((own.peak_bytes for own in moved), default=0)
