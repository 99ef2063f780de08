"""The cache of the entries that were used last."""

from __future__ import annotations

from meshwright_solver.common.recent import Recent


def test_it_keeps_what_was_used_last_up_to_its_size() -> None:
    made: list[str] = []

    def entry(name: str) -> str:
        return cache.get(name, lambda: made.append(name) or name)

    cache = Recent[str](len, 5)
    assert [entry(name) for name in ("aa", "bb", "aa", "cc", "aa", "bb")] == [
        "aa", "bb", "aa", "cc", "aa", "bb",
    ]  # fmt: skip
    assert made == ["aa", "bb", "cc", "bb"]


def test_it_keeps_the_latest_however_large() -> None:
    cache = Recent[str](len, 5)
    large = cache.get("large", lambda: 10 * "x")
    assert cache.get("large", lambda: "another") is large
