"""All that a stage does in a step, written once: its sections."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright_solver.evaluation.memory.event_order import OpEvent
from meshwright_solver.simulation.backward import Backward
from meshwright_solver.simulation.forward import ForwardWriter
from meshwright_solver.simulation.memory_events import hold
from meshwright_solver.simulation.stage_parts import StageParts
from meshwright_solver.simulation.tasks import (
    HostLink,
    Kind,
    Need,
    Section,
    SectionKind,
    StreamTask,
)

Script = Mapping[SectionKind, Section]


def script_of(parts: StageParts, *, split: bool, tied_ns: float = 0.0) -> Script:
    """split: whether the schedule splits backward passes. tied_ns: of the reductions, once a step,
    of gradients of parameters that other stages have too."""
    forward = ForwardWriter(parts)
    found = {SectionKind.F: forward.write(), SectionKind.SPREAD: forward.spread}
    done = {(OpEvent.FORWARD, position): own for position, own in forward.done.items()}
    if not parts.models.problem.training:
        hold(parts, found, done, split=False)
        return found
    backward = Backward(parts, forward.done, split=split)
    inputs, weights = backward.write()
    found |= {inputs.part: inputs, weights.part: weights, SectionKind.REDUCE: backward.reduce}
    if tied_ns:
        needs = _last_reductions((weights, backward.reduce))
        tied = StreamTask("tied parameters", "all_reduce", Kind.GRADIENT, tied_ns, 0)
        backward.reduce.add(tied, needs)
    found[SectionKind.UPDATE] = _update(parts, (weights, backward.reduce))
    hold(parts, found, done | backward.done, split=split)
    return found


def _update(parts: StageParts, reducing: tuple[Section, ...]) -> Section:
    """One for all parameters, once every gradient is there, as a limit on their norm needs it.

    Hosts work at the end of the step, beside the devices: parameter after parameter goes down, is
    updated and comes back.
    """
    section = Section(SectionKind.UPDATE)
    for name, own in parts.ledger.parameters.items():
        ways = zip(HostLink, (own.down_ns, own.host_ns, own.up_ns), strict=True)
        tasks = [
            StreamTask(name, f"host {link.name.lower()}", Kind.HOST, ns, link)
            for link, ns in ways
            if ns
        ]
        section.chain(tasks, _last_reductions(reducing))
    ns = sum(own.update_ns for own in parts.ledger.parameters.values())
    section.add(StreamTask("optimizer", "update", Kind.COMPUTE, ns), _last_reductions(reducing))
    return section


def _last_reductions(sections: tuple[Section, ...]) -> list[Need]:
    """The last reduction on every link, which keep their order."""
    last: dict[tuple[SectionKind, int], Need] = {}
    for section in sections:
        for number, task in enumerate(section.tasks):
            if task.kind is Kind.GRADIENT:
                last[section.part, task.link] = Need(section.part, number)
    return list(last.values())
