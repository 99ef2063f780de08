"""Plans of one stage: of a whole graph, or of the part of it that one pipeline rank runs.

Every mesh of the topology (`meshwright_solver.constraints.meshes`) is searched
(`meshwright_solver.stage.mesh_search`); the best plan wins. The lower bound of the answer is the
least of the bounds over all meshes. It holds for every plan on any of them with the same number of
microbatches and the same recompute policy.

If the setup leaves the number of microbatches open, it doubles until a plan fits, and while the
step becomes shorter. If the request leaves the policy open (`auto`), the search tries others once
memory is short, and the fastest step wins. An answer without a plan names the constraint that no
plan can satisfy.
"""

from __future__ import annotations

from meshwright.schema import Answer, Progress, RecomputePolicy, Request
from meshwright_solver.common.deadline import Deadline, Stop, never
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.folding.folding_cache import Foldings
from meshwright_solver.problem.inference_graph import for_inference
from meshwright_solver.stage.answer import Write, plan_of
from meshwright_solver.stage.best_so_far import Keep, unwanted
from meshwright_solver.stage.parameter_bound import parameter_shortfall
from meshwright_solver.stage.recompute.candidates import PolicyTrials
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_position import ALONE, StagePosition
from meshwright_solver.stage.stage_search import StageSearch
from meshwright_solver.stage.trial_order import ALL, TrialOrder


def plan_stage(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    position: StagePosition = ALONE,
    write: Write = plan_of,
    foldings: Foldings | None = None,
    keep: Keep = unwanted,
) -> Answer:
    """The best plan of one stage, or why there is none; raises MeshwrightError for bad input.

    write: builds the plan document, in full unless the caller needs less. foldings: of the
    request's graph, where several searches share them. keep: receives the best answer so far.
    """
    return search_stage(request, report, stop, position, write, foldings, keep)[0]


def search_stage(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    position: StagePosition = ALONE,
    write: Write = plan_of,
    foldings: Foldings | None = None,
    keep: Keep = unwanted,
    order: TrialOrder = ALL,
) -> tuple[Answer, PolicyTrials | None]:
    """`plan_stage`, with the trials on the coarsest meshes; None if there were none."""
    report = report or (lambda _: None)
    report(Progress(phase="reading", done=0, total=1))
    deadline = Deadline.after(request.budget.seconds, stop)
    graph = for_inference(request.graph, request.setup)
    if graph is not request.graph:
        request = request.model_copy(update={"graph": graph})
    shortfall = parameter_shortfall(request)
    if shortfall is not None:
        return Answer(infeasible=shortfall), None
    if foldings is None or foldings.graph is not request.graph:
        foldings = Foldings(request.graph)
    search = StageSearch(
        request, position, foldings, deadline, report=report, write=write, keep=keep, order=order
    )
    return search.answer()


def price_stage(
    request: Request,
    policy: RecomputePolicy,
    position: StagePosition,
    foldings: Foldings,
    deadline: Deadline,
    most: int,
) -> list[FoldedPlan]:
    """Plans of one stage along the price of memory, whether they fit or not, at most `most` of each
    mesh; none if even the leanest seem not to fit. The setup states the number of microbatches.

    Raises MeshwrightError for bad input, OutOfTime, TableTooLarge.
    """
    search = StageSearch(
        request, position, foldings, deadline,
        report=lambda _: None, write=plan_of, keep=unwanted,
    )  # fmt: skip
    return search.priced(policy, most)
