"""Values of a recipe's symbols: its own, replaced by those of a call."""

from __future__ import annotations

from collections.abc import Mapping

from meshwright.schema.errors import GraphError


def symbol_values(
    symbols: Mapping[str, int],
    *,
    batch: int | None,
    sizes: Mapping[str, int] | None,
    recipe: str,
) -> dict[str, int]:
    """The symbols with these values. Raises GraphError for a symbol that the recipe lacks.

    sizes: values by symbol. recipe: the name in errors.
    """
    given = {**(sizes or {}), **({} if batch is None else {"batch": batch})}
    for symbol, size in given.items():
        if symbol not in symbols:
            raise GraphError(
                f"{recipe}: the recipe has no symbol {symbol!r} for {size} to stand for; its "
                f"symbols are {', '.join(symbols) or 'none'}. Leave {symbol!r} out, or add it to "
                "the recipe's `symbols`"
            )
        if size < 1:
            raise GraphError(f"{recipe}: symbol {symbol!r} is {size}. Use a size of at least 1")
    return {**symbols, **given}
