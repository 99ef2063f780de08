"""Substitution of attributes of modules and classes while a program is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

Substitute = tuple[Any, str, Any]  # the owner, the name of its attribute, and the value

_LOCK = RLock()


@contextmanager
def substituted(*substitutes: Substitute) -> Iterator[None]:
    """A context in which attributes have other values; all are restored at its end.

    One thread at a time is in such contexts, others wait: two traces that overlap would restore
    the substitutes of each other.
    """
    with _LOCK:
        done: list[tuple[Any, str, Any, bool]] = []
        try:
            for owner, name, value in substitutes:
                own = vars(owner) if hasattr(owner, "__dict__") else {}
                before = own[name] if name in own else getattr(owner, name)
                done.append((owner, name, before, isinstance(owner, type) and name not in own))
                setattr(owner, name, value)
            yield
        finally:
            for owner, name, before, is_inherited in reversed(done):
                if is_inherited:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)
