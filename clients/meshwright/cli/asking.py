"""Ask for a plan, in this process or at a service, and tell what came of it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import typer

from meshwright.cli.consoles import notices, results
from meshwright.cli.output import print_json, save
from meshwright.cli.progress import ProgressLine
from meshwright.cli.stored_answers import StoredAnswers
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.common.process_pool import processes
from meshwright.common.stop_signal import StopSignal
from meshwright.common.units import show_bytes
from meshwright.planfile import PlanFile
from meshwright.plugins.planner import (
    certificate_of,
    find_planner,
    find_verifier,
    planner_modules,
    preset,
    takes,
)
from meshwright.render import render_plan, render_summary
from meshwright.replan import keeping_its_way
from meshwright.reports.step_interval import step_interval_ns
from meshwright.schema import (
    Answer,
    Calibration,
    Graph,
    Infeasible,
    Plan,
    Progress,
    Request,
    Setup,
    Topology,
    Wishes,
)
from meshwright.schema.running_plan import Before
from meshwright.schema.target import setup_for

ANY_STORED = StoredAnswers()
INTERRUPTED = 130  # the exit code of shells for what Ctrl-C ended


def ask(
    graph: Graph,
    topology: str,
    setup: Setup,
    wishes: Wishes,
    *,
    server: str | None,
    verify: bool,
    output: Path | None,
    as_json: bool = False,
    workers: int = 1,
    calibration: Calibration | None = None,
    before: Before | None = None,
    stored: StoredAnswers = ANY_STORED,
) -> Plan:
    """Show the plan, and write it to `output` where there is one; a typer.Exit where none fits.

    before: the plan that the job runs now, for a service that has it. stored: the stored plans of a
    service that answer.
    """
    cluster: Topology | None
    predicted_by = calibration
    setup = setup_for(wishes.target, setup)
    if server is None:
        cluster = local = topology_of(topology)
        request = Request(
            graph=graph,
            topology=local,
            setup=setup,
            calibration=calibration,
            before=before,
            **dict(wishes),
        )
        answer = _searched(keeping_its_way(request), workers)
        if verify:
            answer = _verified(answer, request)
    else:
        with Client(server) as client, ProgressLine() as line:
            answer = client.plan(
                graph,
                topology_of(topology) if is_topology_file(topology) else topology,
                setup=setup,
                calibration=calibration,
                from_plan=None if before is None else before.plan.id,
                steps=None if before is None else before.steps,
                **dict(wishes),
                on_progress=line,
                verify=verify,
                **stored.options(),
            )
            cluster = _fetched(client, answer)
            if answer.plan is not None:
                predicted_by = client.get_calibration(answer.plan.calibration)
                if stored.max_age_s is not None:
                    _notice(f"planned by the build {answer.plan.planner_build or 'unknown'}")
    return _told(
        answer,
        graph,
        cluster,
        setup,
        calibration,
        output,
        predicted_by=predicted_by,
        as_json=as_json,
    )


def _searched(request: Request, workers: int) -> Answer:
    """The planner's answer; the first Ctrl-C asks it for the best plan so far."""
    planner = find_planner()
    with (
        StopSignal(signal.SIGINT) as stop,
        ProgressLine(stop) as line,
        processes(workers if takes(planner, "executor") else 1, planner_modules()) as executor,
    ):
        more: dict[str, Any] = {} if executor is None else {"executor": executor}
        answer = planner(request, line, stop, **more)
    return answer.model_copy(update={"ended_early": stop.heeded})


def _verified(answer: Answer, request: Request) -> Answer:
    if answer.plan is None:
        return answer
    with ProgressLine() as line:
        line(Progress(phase="verifying", done=0, total=1))
        certificate = certificate_of(find_verifier(), answer.plan, request)
    return answer.model_copy(update={"certificate": certificate})


def _told(
    answer: Answer,
    graph: Graph,
    topology: Topology | None,
    setup: Setup,
    calibration: Calibration | None,
    output: Path | None,
    *,
    predicted_by: Calibration | None,
    as_json: bool,
) -> Plan:
    if answer.plan is None:
        assert answer.infeasible is not None
        if as_json:
            print_json(answer.infeasible)
        if answer.ended_early and answer.infeasible.constraint == "time":
            _notice("meshwright: the search was ended before it had found a plan")
            raise typer.Exit(INTERRUPTED)
        _notice(f"meshwright: no plan fits: {_binding(answer.infeasible)}")
        raise typer.Exit(1)
    plan, certificate = answer.plan, answer.certificate
    if output is not None:
        file = PlanFile(
            plan=plan,
            graph=graph,
            topology=topology,
            setup=setup,
            calibration=calibration,
            certificate=certificate,
            seconds=answer.seconds,
        )
        save(output, file, name=plan.id)
    if as_json:
        print_json(plan)
    else:
        render = render_plan if output is None and plan.move is None else render_summary
        results().print(
            render(
                plan,
                graph=graph,
                topology=topology,
                setup=setup,
                certificate=certificate,
                seconds=answer.seconds,
                interval_ns=step_interval_ns(plan, setup, predicted_by),
            )
        )
    if answer.ended_early:
        _notice("meshwright: the search was ended early; this is the best plan until then")
    if output is not None:
        _notice(f"wrote {output}; meshwright show {output} prints all of it")
    if certificate is not None and certificate.outcome != "verified":
        raise typer.Exit(1)
    return plan


def _notice(text: str) -> None:
    notices().print(text, markup=False, soft_wrap=True)


def _binding(infeasible: Infeasible) -> str:
    needed, available = infeasible.needed_bytes, infeasible.available_bytes
    numbers = (
        f" (needed {show_bytes(needed)}, available {show_bytes(available)} a device)"
        if needed is not None and available is not None
        else ""
    )
    largest = ", ".join(
        f"{own.tensor} ({_together(own.count)}{show_bytes(own.bytes)})"
        for own in infeasible.largest
    )
    most = f"\nmost of it: {largest}" if largest else ""
    return f"{infeasible.constraint}: {infeasible.detail}{numbers}{most}"


def _together(count: int) -> str:
    return f"{count} of them, together " if count > 1 else ""


def is_topology_file(topology: str) -> bool:
    """Whether a topology is a file, not the name of a preset."""
    return topology.endswith((".json", ".gz", ".zst")) or Path(topology).is_file()


def topology_of(topology: str) -> Topology:
    return (
        read_document(Path(topology), Topology) if is_topology_file(topology) else preset(topology)
    )


def _fetched(client: Client, answer: Answer) -> Topology | None:
    return client.get_topology(answer.plan.topology) if answer.plan else None
