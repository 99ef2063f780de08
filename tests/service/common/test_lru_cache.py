"""What was asked for last stays as far as there is room."""

from __future__ import annotations

from meshwright_service.common.lru_cache import Latest


def test_what_was_asked_for_longest_ago_goes() -> None:
    kept: Latest[str, int] = Latest(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    assert kept.get("a") == 1
    kept.keep("c", 3)
    assert [kept.get(key) for key in "abc"] == [1, None, 3]
    kept.keep("a", 4)
    kept.keep("d", 5)
    assert [kept.get(key) for key in "acd"] == [4, None, 5]


def test_weights_count_and_the_last_stays_whatever_it_weighs() -> None:
    kept: Latest[str, str] = Latest(5, len)
    kept.keep("a", "xxx")
    kept.keep("a", "xx")  # in its place
    kept.keep("b", "xxx")
    assert [kept.get(key) for key in "ab"] == ["xx", "xxx"]
    kept.keep("c", "x" * 9)
    assert [kept.get(key) for key in "abc"] == [None, None, "x" * 9]
    kept.keep("d", "x")
    assert [kept.get(key) for key in "cd"] == [None, "x"]
