"""The script of a stage: the sections that it runs in a step, each written once."""

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
    """The sections of a stage.

    split: whether the schedule splits backward passes. tied_ns: time of the gradient reductions,
    once a step, of parameters that other stages share.
    """
    forward = ForwardWriter(parts)
    sections = {SectionKind.F: forward.write(), SectionKind.SPREAD: forward.spread}
    done = {(OpEvent.FORWARD, position): task for position, task in forward.done.items()}
    if not parts.models.problem.training:
        hold(parts, sections, done, split=False)
        return sections
    backward = Backward(parts, forward.done, split=split)
    inputs, weights = backward.write()
    sections |= {inputs.part: inputs, weights.part: weights, SectionKind.REDUCE: backward.reduce}
    if tied_ns:
        needs = _last_reductions((weights, backward.reduce))
        tied = StreamTask("tied parameters", "all_reduce", Kind.GRADIENT, tied_ns, 0)
        backward.reduce.add(tied, needs)
    sections[SectionKind.UPDATE] = _update(parts, (weights, backward.reduce))
    hold(parts, sections, done | backward.done, split=split)
    return sections


def _update(parts: StageParts, reducing: tuple[Section, ...]) -> Section:
    """The optimizer update of all parameters, after the last gradient reduction.

    Gradient norm clipping needs all gradients first. Hosts work beside the devices: each offloaded
    parameter in turn goes to the host, is updated there and returns.
    """
    section = Section(SectionKind.UPDATE)
    for name, parameter in parts.ledger.parameters.items():
        ways = zip(HostLink, (parameter.down_ns, parameter.host_ns, parameter.up_ns), strict=True)
        tasks = [
            StreamTask(name, f"host {link.name.lower()}", Kind.HOST, ns, link)
            for link, ns in ways
            if ns
        ]
        section.chain(tasks, _last_reductions(reducing))
    ns = sum(parameter.update_ns for parameter in parts.ledger.parameters.values())
    section.add(StreamTask("optimizer", "update", Kind.COMPUTE, ns), _last_reductions(reducing))
    return section


def _last_reductions(sections: tuple[Section, ...]) -> list[Need]:
    """The last reduction on every link; reductions on one link run in order."""
    last: dict[tuple[SectionKind, int], Need] = {}
    for section in sections:
        for number, task in enumerate(section.tasks):
            if task.kind is Kind.GRADIENT:
                last[section.part, task.link] = Need(section.part, number)
    return list(last.values())
