"""Names with braces, compared with those that bash makes of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import RequestError
from meshwright.sweeps.name_patterns import expanded, split_outside_braces

PLAIN = st.text("abx0128-_+", max_size=4)
VALUES = st.lists(st.text("abx0128", min_size=1, max_size=3), min_size=2, max_size=4)
BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="bash is the oracle")
@settings(max_examples=25)
@given(st.lists(st.tuples(PLAIN, VALUES), min_size=1, max_size=3), PLAIN)
def test_patterns_stand_for_the_names_that_bash_makes(
    parts: list[tuple[str, list[str]]], end: str
) -> None:
    pattern = "".join(f"{text}{{{','.join(values)}}}" for text, values in parts) + end
    script = f"printf '%s\\n' x{pattern}"  # the x keeps words that begin with a minus
    made = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert [f"x{name}" for name in expanded(pattern)] == made.stdout.splitlines()


def test_a_name_without_braces_is_itself() -> None:
    assert expanded("h100-8x8") == ("h100-8x8",)
    assert expanded("h100-{8}x8") == ("h100-8x8",)


@pytest.mark.parametrize("pattern", ["h100-{2,4x8", "h100-2,4}x8", "}{", "a{b{c,d}}", "a{1,}"])
def test_braces_that_do_not_match_are_refused(pattern: str) -> None:
    with pytest.raises(RequestError, match="braces of"):
        expanded(pattern)


def test_patterns_of_too_many_names_are_refused() -> None:
    with pytest.raises(RequestError, match="more than 1000 names"):
        expanded("{0,1,2,3,4,5,6,7,8,9}" * 30)


def test_commas_within_braces_do_not_separate() -> None:
    assert split_outside_braces("h100-{2,4}x8, b200-1x8,,") == ("h100-{2,4}x8", "b200-1x8")
