"""Time and memory of a plan, as `evaluate` computes them."""

from __future__ import annotations

from pydantic import Field

from meshwright.schema.model import Model, Ns, Number


class Moment(Model):
    """The transient memory at one moment on the device with the highest peak, in bytes."""

    at: str = Field(description="The moment, such as `forward of` an op.")
    activations: int = Field(
        default=0, description="The saved activations of all microbatches in flight."
    )
    recomputed: int = Field(
        default=0, description="The activations that are recomputed for the backward pass."
    )
    working: int = Field(
        default=0, description="The values and gradients between ops, and workspaces."
    )
    gathered: int = Field(
        default=0, description="The gathered parameters, and the gradients before their reduction."
    )
    buffers: int = Field(
        default=0, description="The buffers of transfers between neighboring stages."
    )

    @property
    def total(self) -> int:
        transient = self.recomputed + self.working + self.gathered + self.buffers
        return self.activations + transient


# the fields of `MemoryUse` that add up to its total
MEMORY_PARTS = (
    "parameters", "gradients", "optimizer", "activations", "cache", "recomputed", "working",
    "gathered", "buffers", "reserved",
)  # fmt: skip


class MemoryUse(Model):
    """The memory at the peak of the device with the highest peak, in bytes."""

    parameters: int = Field(default=0, description="The parameters.")
    gradients: int = Field(default=0, description="The gradients.")
    optimizer: int = Field(default=0, description="The optimizer states.")
    activations: int = Field(default=0, description="The saved activations at their maximum.")
    cache: int = Field(default=0, description="The key-value cache of inference.")
    recomputed: int = Field(
        default=0,
        description="The recomputed activations at the peak (`Moment`), less what the peak has "
        "released.",
    )
    working: int = Field(default=0, description="The values and gradients between ops at the peak.")
    gathered: int = Field(
        default=0, description="The gathered parameters and unreduced gradients at the peak."
    )
    buffers: int = Field(
        default=0, description="The buffers of transfers between stages at the peak."
    )
    reserved: int = Field(
        default=0,
        description="The memory that is left free for fragmentation, the framework and its "
        "libraries.",
    )
    capacity: int = Field(default=0, description="The memory of the device.")
    host: int = Field(default=0, description="The memory in the device's share of its host.")
    host_capacity: int = Field(
        default=0, description="The capacity of the device's share of its host."
    )
    moment: str = Field(default="", description="The moment of the peak.")

    @property
    def total(self) -> int:
        rest = self.parameters + self.gradients + self.optimizer + self.cache + self.reserved
        return rest + self.activations + self.passing

    @property
    def passing(self) -> int:
        """The transient memory within a microbatch, in bytes."""
        return self.recomputed + self.working + self.gathered + self.buffers


class Cost(Model):
    """The cost of a plan by `evaluate`: one optimizer step on one device.

    For several pipeline ranks it is the cost of a device of the rank that works longest. The
    traffic `host` is the time of transfers to the host and back, and of work on the host.
    """

    step_ns: Ns = Field(
        description="The time of a step in nanoseconds, with overlap, in closed form: the sum of "
        "`compute_ns`, `exposed_ns` and `bubble_ns`."
    )
    objective_ns: Ns = Field(
        description="The objective that the search minimizes, in nanoseconds. For one stage it is "
        "the compute time plus fixed shares of `communication_ns`. For a pipeline it is the time "
        "of a step."
    )
    compute_ns: Ns = Field(description="The compute time in nanoseconds.")
    bubble_ns: Ns = Field(
        default=0,
        description="The time that a pipeline rank waits for other ranks, in nanoseconds.",
    )
    communication_ns: dict[str, Number] = Field(
        description="The communication time in nanoseconds, by traffic."
    )
    exposed_ns: dict[str, Number] = Field(
        description="The communication time that computation does not hide, in nanoseconds, by "
        "traffic."
    )
    memory_bytes: MemoryUse = Field(description="The memory of the device with the highest peak.")
