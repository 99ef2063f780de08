from __future__ import annotations

import json

import numpy as np
import pytest

from bench.closed_form.constants import CONSTANTS, PRIOR, SPREAD, Constants
from bench.closed_form.fit import Fitted
from bench.closed_form.profile import Profile, published_profile


def test_a_profile_survives_its_document():
    own = Profile.of("mine", "my cluster", Fitted(Constants(PRIOR), SPREAD), {"here": 3.14159})
    again = Profile.from_json(own.to_json())
    assert again == own
    assert again.constants.logs == pytest.approx(PRIOR, rel=1e-4)


def test_equal_constants_have_one_id_and_others_another():
    own = published_profile()
    document = json.loads(own.to_json())
    document["source"] = "elsewhere"
    assert Profile.from_json(json.dumps(document)).id == own.id
    document["constants"]["memory"]["value"] *= 1.01
    assert Profile.from_json(json.dumps(document)).id != own.id


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"name": "x", "source": "y", "constants": {}}', "no JSON"]
)
def test_a_document_that_is_no_profile_is_refused(text: str):
    with pytest.raises(ValueError, match=r".+"):
        Profile.from_json(text)


def test_a_constant_that_is_not_positive_is_refused():
    document = json.loads(published_profile().to_json())
    document["constants"]["memory"]["value"] = 0
    with pytest.raises(ValueError, match="positive"):
        Profile.from_json(json.dumps(document))


def test_every_constant_says_where_it_is_from():
    for own in CONSTANTS:
        assert own.source.startswith(("published", "chosen")), own.name
        assert own.meaning
        assert own.prior > 0
    assert len({own.name for own in CONSTANTS}) == len(CONSTANTS)
    assert np.isfinite(published_profile().constants.logs).all()
