"""Architectures at the sizes of public checkpoints: captured, counted, planned and verified."""

import pytest

from docs.generate_architectures import measure
from tests.capture.architecture_limits import OTHER_FLOPS, UNVERIFIED
from tests.capture.architectures import ARCHITECTURES
from tests.capture.published_parameters import COMPARED_CONFIGURATIONS, PUBLISHED

CAPTURE_S = 60  # chosen: CPU seconds, for the largest of 61 layers of 384 experts
REPLICATED_SHARE = 0.01  # chosen: of the compute time, for one op


def test_only_known_rows_have_published_numbers_and_limits():
    names = {architecture.name for architecture in ARCHITECTURES}
    assert {*PUBLISHED, *COMPARED_CONFIGURATIONS, *OTHER_FLOPS, *UNVERIFIED} <= names


def test_a_number_without_evidence_stands_in_parentheses():
    assert PUBLISHED["rembert"].cell == "(995M; arXiv:2010.12821)"
    assert PUBLISHED["bert"].cell == "110M (arXiv:1810.04805)"


@pytest.mark.long
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)
def test_an_architecture_at_full_size(architecture):
    measured = measure(architecture)
    published = PUBLISHED.get(architecture.name)
    if published is not None and not published.why:
        assert published.agrees_with(measured.parameters)
    if measured.flops_share is not None and architecture.name not in OTHER_FLOPS:
        assert measured.flops_share == pytest.approx(1, abs=0.01)
    assert measured.unknown == ()
    assert measured.replicated_share <= REPLICATED_SHARE
    assert measured.capture_s <= CAPTURE_S
    assert measured.outcome == "verified" or architecture.name in UNVERIFIED
