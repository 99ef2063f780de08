"""The planner and the topology presets, where the server distribution is installed.

Both are found by entry point, so that this distribution needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from importlib import import_module
from inspect import signature
from typing import Any, Protocol, cast

from meshwright.entry_points import loaded, module_of
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
from meshwright.stopping import Stop, never

NO_PRESETS = "no topology presets are installed here"


# given what makes the answer of a search that goes on, were it to end now; None: it has no plan
Keep = Callable[[Callable[[], Answer | None]], None]


def unwanted(make: Callable[[], Answer | None]) -> None:
    """A keep of nobody who wants plans before the end."""
    del make


class Planner(Protocol):
    """Searches; raises MeshwrightError where the request is wrong.

    stop: asked now and then, from any thread. Once it says so, the planner soon answers with the
    best plan so far, or with the constraint `time` where it has none. executor: for searches that
    do not depend on each other; given only where somebody asked for more than one process. keep:
    called where there is a better plan than before, by the thread that was called; it has the plan
    made now and then. Given to planners that have such a parameter.
    """

    def __call__(
        self,
        request: Request,
        report: Callable[[Progress], None] | None = None,
        stop: Stop = never,
        executor: Executor | None = None,
        keep: Keep = unwanted,
    ) -> Answer: ...


def takes_keep(planner: Callable[..., Answer]) -> bool:
    """Whether a planner hands over plans while it searches."""
    return "keep" in signature(planner).parameters


def find_planner(name: str = "default") -> Planner:
    """The planner of this name, or `module:function`; Unavailable where there is none."""
    return cast(Planner, _found("meshwright.planner", name, "no planner is installed here"))


def planner_modules(name: str = "default") -> list[str]:
    """The modules that `find_planner` loads for this name, for processes that are to be quick."""
    if ":" in name:
        return [name.partition(":")[0]]
    return module_of("meshwright.planner", name)


class Verifier(Protocol):
    """Executes a plan; raises MeshwrightError where plan and documents do not fit together."""

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
    return cast(Verifier, _found("meshwright.verifier", name, "no verifier is installed here"))


class Fitter(Protocol):
    """A calibration from samples; raises InvalidInput where they do not belong to the topology."""

    def __call__(self, samples: Samples, topology: Topology | None = None) -> Calibration: ...


def find_fitter(name: str = "default") -> Fitter:
    """The fitter of this name, or `module:function`; Unavailable where there is none."""
    return cast(Fitter, _found("meshwright.fitter", name, "nothing is installed here that fits"))


class Teller(Protocol):
    """How well a calibration tells samples."""

    def __call__(self, calibration: Calibration, samples: Samples) -> Residuals: ...


def find_teller() -> Teller:
    """What compares calibrations with samples; Unavailable where nothing is installed."""
    return cast(Teller, _found("meshwright.fitter", "residuals", "nothing here tells residuals"))


def certificate_of(verifier: Verifier, plan: Plan, request: Request) -> Certificate:
    """The verifier's word on a planner's answer, always a certificate.

    A plan that does not fit its own request, or says of itself another cost than it has, failed.
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
    return cast(Topology, loaded("meshwright.topologies", "preset", NO_PRESETS)(name))


def preset_devices() -> list[str]:
    """The devices that a preset's name may begin with."""
    return list(loaded("meshwright.topologies", "devices", NO_PRESETS)())


def _found(group: str, name: str, lack: str) -> Any:
    if ":" in name:
        module, _, function = name.partition(":")
        return getattr(import_module(module), function)
    return loaded(group, name, lack)
