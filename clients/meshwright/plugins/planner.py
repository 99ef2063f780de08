"""Plugin interfaces of the planner, the verifier, the fitter and the topology presets.

The server distribution registers them as entry points.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from inspect import signature
from typing import Literal, Protocol, cast

from meshwright.common.stop_signal import Stop, never
from meshwright.plugins.entry_points import load_entry_point, module_of, named_object
from meshwright.schema import (
    Answer,
    Calibration,
    Certificate,
    Graph,
    MeshwrightError,
    Plan,
    PlanError,
    Progress,
    Request,
    Setup,
    Topology,
)
from meshwright.schema.residuals import Residuals
from meshwright.schema.samples import Samples

NO_PRESETS = "no topology presets are installed here"


# called with a function that builds the current answer of a running search, None without a plan
Keep = Callable[[Callable[[], Answer | None]], None]


def unwanted(make: Callable[[], Answer | None]) -> None:
    """A keep that ignores intermediate plans."""
    del make


class Planner(Protocol):
    """A search for a plan; raises MeshwrightError for an invalid request.

    stop: polled from any thread. After it returns True, the planner returns the best plan so far,
    or the constraint `time` without a plan.
    executor: runs independent searches; None unless the caller requests several processes.
    keep: called for each better plan, in the calling thread, with a function that builds the
    answer. Both are passed only to planners with these parameters.
    """

    def __call__(
        self,
        request: Request,
        report: Callable[[Progress], None] | None = None,
        stop: Stop = never,
        executor: Executor | None = None,
        keep: Keep = unwanted,
    ) -> Answer: ...


def takes(planner: Callable[..., Answer], parameter: Literal["executor", "keep"]) -> bool:
    """Whether a planner has an optional parameter."""
    return parameter in signature(planner).parameters


def find_planner(name: str = "default") -> Planner:
    """The planner of this name, or `module:function`; Unavailable where there is none."""
    return cast(Planner, named_object("meshwright.planner", name, "no planner is installed here"))


def planner_build() -> str:
    """The build of the default planner, as plans name it; Unavailable without a planner."""
    build: Callable[[], str] = load_entry_point(
        "meshwright.planner", "build", "no planner is installed here"
    )
    return build()


def planner_modules(name: str = "default") -> list[str]:
    """The modules that `find_planner` loads for this name, for preloading in processes."""
    if ":" in name:
        return [name.partition(":")[0]]
    return module_of("meshwright.planner", name)


class Verifier(Protocol):
    """Execution of a plan; raises MeshwrightError where plan and documents do not match."""

    def __call__(
        self,
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
        seed: int = 0,
    ) -> Certificate: ...


def find_verifier(name: str = "default") -> Verifier:
    """The verifier of this name, or `module:function`; Unavailable where there is none."""
    return cast(
        Verifier, named_object("meshwright.verifier", name, "no verifier is installed here")
    )


class Fitter(Protocol):
    """A calibration from samples; raises InvalidInput where they do not belong to the topology."""

    def __call__(self, samples: Samples, topology: Topology | None = None) -> Calibration: ...


def find_fitter(name: str = "default") -> Fitter:
    """The fitter of this name, or `module:function`; Unavailable where there is none."""
    return cast(Fitter, named_object("meshwright.fitter", name, "no fitter is installed here"))


class ResidualsFunction(Protocol):
    """Residuals of a calibration: its prediction errors for samples."""

    def __call__(self, calibration: Calibration, samples: Samples) -> Residuals: ...


def find_residuals_function() -> ResidualsFunction:
    """The residuals function; Unavailable where none is installed."""
    return cast(
        ResidualsFunction,
        named_object("meshwright.fitter", "residuals", "no residuals function is installed here"),
    )


def certificate_of(verifier: Verifier, plan: Plan, request: Request) -> Certificate:
    """The certificate of a planner's answer; errors of the verifier become certificates too.

    A plan that does not fit its request, or states a wrong cost, has the outcome `failed`.
    """
    try:
        return verifier(plan, request.graph, request.topology, request.setup, request.calibration)
    except PlanError as wrong:
        return Certificate(plan=plan.id, outcome="failed", detail=wrong.detail)
    except MeshwrightError as error:
        detail = f"{error.title}: {error.detail}"
        return Certificate(plan=plan.id, outcome="not verifiable", detail=detail)


def preset(name: str) -> Topology:
    """The topology preset of this name; TopologyError where there is none."""
    return cast(Topology, load_entry_point("meshwright.topologies", "preset", NO_PRESETS)(name))


def preset_devices() -> list[str]:
    """The devices that a preset's name may begin with."""
    return list(load_entry_point("meshwright.topologies", "devices", NO_PRESETS)())
