"""Shares of one budget: a tenant holds half of what the others leave."""

from __future__ import annotations

import pytest

from meshwright_service.api.body_shares import BodyShares
from meshwright_service.common.errors import Busy
from meshwright_service.common.tenant import Tenant

ONE, TWO, THREE = Tenant("one"), Tenant("two"), Tenant("three")


def test_a_tenant_alone_holds_half_of_the_budget() -> None:
    shares = BodyShares(100)
    shares.take(ONE, 50)
    with pytest.raises(Busy, match="MESHWRIGHT_MAX_BUFFER_BYTES"):
        shares.take(ONE, 1)
    assert shares.held(ONE) == 50


def test_there_is_room_for_a_tenant_that_holds_nothing() -> None:
    shares = BodyShares(100)
    shares.take(ONE, 50)
    shares.take(TWO, 25)  # half of the 50 that one leaves
    with pytest.raises(Busy):
        shares.take(TWO, 1)
    shares.take(THREE, 12)


def test_what_is_given_back_can_be_taken_again() -> None:
    shares = BodyShares(100)
    shares.take(ONE, 30)
    shares.take(ONE, 20)
    shares.give(ONE, 50)
    assert shares.held(ONE) == 0
    shares.take(TWO, 50)
