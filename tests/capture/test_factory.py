"""Factories named on a command line."""

import pytest

from meshwright.capture import capture_factory
from meshwright.schema import GraphError


def test_a_factory_is_captured_at_the_batch_asked_for():
    graph = capture_factory("examples.models.wide_deep:wide_deep", batch=96)
    assert graph.name == "wide-deep"
    assert graph.symbols == {"batch": 96}
    assert graph.tensor("table.weight").shape == (100_000_000, 64)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("examples.models.wide_deep", "pkg.module:factory"),
        ("no.such.module:factory", "cannot import"),
        ("examples.models.wide_deep:missing", "no function 'missing'"),
        ("builtins:dict", "must return a meshwright.capture.Recipe"),
    ],
)
def test_a_spec_that_leads_nowhere_is_refused(spec, message):
    with pytest.raises(GraphError, match=message):
        capture_factory(spec)
