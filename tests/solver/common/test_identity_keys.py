"""Keys of objects by identity."""

from __future__ import annotations

import pickle
import weakref

import numpy as np
import pytest

from meshwright_solver.common.identity_keys import IdentityKeys


def test_one_object_has_one_key() -> None:
    key_of, array = IdentityKeys(), np.zeros(3)
    assert key_of(array) == key_of(array)


def test_equal_objects_have_keys_of_their_own() -> None:
    key_of = IdentityKeys()
    assert len(set(key_of.each([np.zeros(3), np.zeros(3)]))) == 2


def test_an_object_lives_as_long_as_its_key() -> None:
    # without a strong reference each array would take the place of the one before
    key_of = IdentityKeys()
    assert len({key_of(np.zeros(3)) for _ in range(100)}) == 100


def test_objects_go_with_the_keys() -> None:
    key_of, array = IdentityKeys(), np.zeros(3)
    key_of(array)
    seen = weakref.ref(array)
    del array
    assert seen() is not None
    del key_of
    assert seen() is None


def test_keys_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="in one process only"):
        pickle.dumps(IdentityKeys())
