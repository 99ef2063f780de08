"""Sizes of tensor dims: integers, or expressions in the graph's symbols.

A symbolic size is text such as `batch`, `batch*seq`, `2*batch*seq//8` or `seq+1`: integers and
symbols with + - * // % and parentheses. A division leaves no remainder: `(seq + 19*seq%20)//20` is
seq / 20, rounded up. With other values of the symbols, the same graph has another batch or sequence
length.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from meshwright.schema.errors import GraphError

Size = int | str

MAX_SIZE = 2**53  # chosen: every size is exact in a double, and so in every JSON parser
MAX_EXPRESSION = 200  # characters; chosen
SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_WORDS = re.compile(r"(?:[A-Za-z_]\w*(?!\w)|\d+(?!\w)|//|[-+*%() ])+\Z", re.ASCII)


def symbols_in(size: Size) -> frozenset[str]:
    """The symbols of a size; raises GraphError if the size is not a valid expression."""
    if isinstance(size, int):
        return frozenset()
    return _symbols(size)


def batch_dim(shape: Sequence[Size]) -> int | None:
    """The position of the dim whose size has the symbol `batch`."""
    return next((d for d, size in enumerate(shape) if "batch" in symbols_in(size)), None)


def size_value(size: Size, symbols: Mapping[str, int]) -> int:
    """The value of a size in elements, from 1 to MAX_SIZE.

    Raises GraphError if a symbol has no value, a division leaves a remainder, or the value is out
    of range.
    """
    value = evaluate(size, symbols)
    if not 1 <= value <= MAX_SIZE:
        raise GraphError(f"a dim must have a size of 1 to {MAX_SIZE}, got {size!r} = {value}")
    return value


def rounded_up(dividend: str, divisor: int) -> str:
    """The expression of a quotient, rounded up. dividend: a product, without + and -."""
    return f"({dividend}+{divisor - 1}*{dividend}%{divisor})//{divisor}"


def evaluate(expression: Size, symbols: Mapping[str, int]) -> int:
    """The value of an expression, of any magnitude; raises GraphError if it has none."""
    if isinstance(expression, int):
        return expression
    return _evaluate(_parse(expression).body, symbols, expression)


@lru_cache(maxsize=4096)
def _symbols(text: str) -> frozenset[str]:
    symbols = set()
    for node in ast.walk(_parse(text).body):
        match node:
            case ast.Name(id=name):
                symbols.add(name)
            case ast.BinOp() | ast.Constant() | ast.Load():
                pass
            case ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod():
                pass
            case _:
                raise _invalid(text)
    return frozenset(symbols)


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.Expression:
    if len(text) > MAX_EXPRESSION:
        raise GraphError(f"a size expression has at most {MAX_EXPRESSION} characters: {text[:40]}…")
    if not _WORDS.match(text):
        raise _invalid(text)
    try:
        return ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise GraphError(f"size {text!r} is not an expression") from None


def _evaluate(node: ast.expr, symbols: Mapping[str, int], text: str) -> int:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            if name not in symbols:
                raise GraphError(f"size {text!r}: symbol {name!r} has no value")
            return symbols[name]
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _evaluate(left, symbols, text), _evaluate(right, symbols, text)
            match operator:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    if b == 0 or a % b:
                        raise GraphError(f"size {text!r}: {a} does not divide by {b}")
                    return a // b
                case ast.Mod():
                    if b == 0:
                        raise GraphError(f"size {text!r}: a remainder by 0 has no value")
                    return a % b
                case _:
                    pass
        case _:
            pass
    raise _invalid(text)


def _invalid(text: str) -> GraphError:
    return GraphError(f"size {text!r} is invalid. Use integers, symbols, + - * // % and ( ) only")
