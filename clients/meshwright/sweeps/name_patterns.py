"""Names with braces, as shells expand them: `h100-{2,4}x8` is `h100-2x8` and `h100-4x8`."""

from __future__ import annotations

from itertools import product

from meshwright.schema import RequestError

_MOST = 1000  # chosen: twice the points of a sweep


def expanded(pattern: str) -> tuple[str, ...]:
    """The names of a pattern, the first braces slowest; RequestError for unbalanced braces."""
    parts: list[tuple[str, ...]] = []
    rest = pattern
    count = 1
    while "{" in rest or "}" in rest:
        before, opening, after = rest.partition("{")
        inside, closing, rest = after.partition("}")
        if not (opening and closing) or "}" in before or "{" in inside:
            raise RequestError(
                f"the braces of {pattern[:80]!r} do not match. Write them as in h100-{{2,4}}x8"
            )
        values = tuple(value.strip() for value in inside.split(","))
        if not all(values):
            raise RequestError(
                f"the braces of {pattern[:80]!r} have an empty value. Write values between commas"
            )
        parts += [(before,), values]
        count *= len(values)
        if count > _MOST:
            raise RequestError(f"{pattern[:80]!r} stands for more than {_MOST} names. Use fewer")
    return tuple("".join(name) for name in product(*parts, (rest,)))


def split_outside_braces(text: str) -> tuple[str, ...]:
    """The parts of a list between commas; commas within braces do not separate."""
    parts, depth = [""], 0
    for character in text:
        if character == "," and depth == 0:
            parts.append("")
            continue
        depth += (character == "{") - (character == "}")
        parts[-1] += character
    return tuple(part.strip() for part in parts if part.strip())
