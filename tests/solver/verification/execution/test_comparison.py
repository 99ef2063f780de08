"""Errors of sharded tensors against the unsharded run."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Dim, Layout, Mesh, SubDim
from meshwright_solver.verification.execution.comparison import error_of

MESH = Mesh.model_validate({"axes": [{"name": "gpu", "size": 1, "level": "gpu"}]})
LAYOUT = Layout(dims=(Dim(parts=(SubDim(size=3),)),))


def error(found: list[float], wanted: list[float]) -> float:
    return error_of(LAYOUT, [np.array(found)], MESH, np.array(wanted), 0.0)


def test_equal_infinities_are_equal() -> None:
    assert error([2.0, -np.inf, np.inf], [2.0, -np.inf, np.inf]) == 0.0


def test_an_error_is_a_share_of_the_largest_finite_element() -> None:
    assert error([2.5, -np.inf, 5.0], [2.0, -np.inf, 5.0]) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "found", [[2.0, np.inf, 1.0], [2.0, 7.0, 1.0], [2.0, np.nan, 1.0], [np.inf, -np.inf, 1.0]]
)
def test_an_infinity_against_anything_else_is_an_infinite_error(found: list[float]) -> None:
    assert error(found, [2.0, -np.inf, 1.0]) == np.inf
