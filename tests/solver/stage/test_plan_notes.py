"""Notes of a plan: no more than is proved."""

from __future__ import annotations

from meshwright.schema import Constraints
from meshwright_solver.stage.plan_notes import why_idle
from tests.solver.requests import mlp_request
from tests.solver.small_graphs import topology


def test_only_a_free_optimum_says_that_more_would_not_pay() -> None:
    request = mlp_request(4, topology(2))
    assert why_idle(request) == "sharding more of it would cost more than it saves"
    held = request.model_copy(update={"constraints": Constraints(fully_use_devices=True)})
    for other in (held, request.model_copy(update={"solver": "semi_auto"})):
        assert why_idle(other).startswith("pins, constraints or the search")
