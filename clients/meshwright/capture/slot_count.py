"""The number of slots of an expert for one sequence, as a size expression."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from meshwright.schema.sizes import Size, evaluate, rounded_up

# chosen: sequences divide over up to 8 devices, and rows fill the tiles of matrix products
ALIGNMENT = 8


def slot_count(tokens: Size, choices: int, experts: int, symbols: Mapping[str, int]) -> Size:
    """tokens x choices / experts; a quotient that leaves a remainder is rounded up.

    tokens: the length of the sequence. symbols: the values for which the remainder is tested; no
    test without values. Rounded up means to a multiple of `ALIGNMENT` if the length is symbolic.
    """
    shared = gcd(choices, experts)
    k, e = choices // shared, experts // shared
    if isinstance(tokens, int):
        return -(-tokens * k // e)
    length = f"({tokens})" if set(tokens) & set("+-") else tokens
    pairs = length if k == 1 else f"{k}*{length}"
    if e == 1:
        return pairs
    if symbols and evaluate(pairs, symbols) % e:
        return f"{ALIGNMENT}*({rounded_up(pairs, ALIGNMENT * e)})"
    return f"{pairs}//{e}"
