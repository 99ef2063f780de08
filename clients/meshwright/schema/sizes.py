"""Sizes of tensor dims: integers, or expressions in the graph's symbols.

A symbolic size is text such as `batch`, `batch*seq`, `2*batch*seq//8` or `seq+1`: whole numbers and
symbols with + - * // and parentheses. It is evaluated with a value for every symbol, so that one
graph can be instantiated at another batch or sequence length.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache

from meshwright.schema.errors import GraphError

Size = int | str

MAX_SIZE = 2**53  # chosen: every size stays exact in a double, so in JSON everywhere
MAX_EXPRESSION = 200  # characters; chosen
SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_WORDS = re.compile(r"(?:[A-Za-z_]\w*(?!\w)|\d+(?!\w)|//|[-+*() ])+\Z", re.ASCII)


def symbols_in(size: Size) -> frozenset[str]:
    """The symbols that a size depends on; raises GraphError where it is no such expression."""
    if isinstance(size, int):
        return frozenset()
    return _symbols(size)


def size_value(size: Size, symbols: Mapping[str, int]) -> int:
    """The size as a whole number of at least 1.

    Raises GraphError where a symbol has no value, a division leaves a rest, or the value is not in
    1 .. MAX_SIZE.
    """
    value = evaluate(size, symbols)
    if not 1 <= value <= MAX_SIZE:
        raise GraphError(f"a dim must have a size of 1 to {MAX_SIZE}, got {size!r} = {value}")
    return value


def evaluate(expression: Size, symbols: Mapping[str, int]) -> int:
    """The value of an expression, of any magnitude; raises GraphError where it has none."""
    if isinstance(expression, int):
        return expression
    return _evaluate(_parsed(expression).body, symbols, expression)


@lru_cache(maxsize=4096)
def _symbols(text: str) -> frozenset[str]:
    found = set()
    for node in ast.walk(_parsed(text).body):
        match node:
            case ast.Name(id=name):
                found.add(name)
            case ast.BinOp() | ast.Constant() | ast.Load():
                pass
            case ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv():
                pass
            case _:
                raise _not_allowed(text)
    return frozenset(found)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.Expression:
    if len(text) > MAX_EXPRESSION:
        raise GraphError(f"a size expression has at most {MAX_EXPRESSION} characters: {text[:40]}…")
    if not _WORDS.match(text):
        raise _not_allowed(text)
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
                case _:
                    pass
        case _:
            pass
    raise _not_allowed(text)


def _not_allowed(text: str) -> GraphError:
    return GraphError(f"size {text!r} may use whole numbers, symbols, + - * // and ( ) only")
