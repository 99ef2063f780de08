"""Validation that ends at the first error of a collection.

An error takes more memory than its item: 400,000 invalid items took a gigabyte, and the caller
reads one error.
"""

from __future__ import annotations

from pydantic_core import core_schema

# the collections in which the installed version of pydantic supports `fail_fast`
COLLECTIONS = frozenset(
    kind
    for kind, schema in (
        ("tuple", core_schema.TupleSchema),
        ("list", core_schema.ListSchema),
        ("set", core_schema.SetSchema),
        ("frozenset", core_schema.FrozenSetSchema),
        ("dict", core_schema.DictSchema),
    )
    if "fail_fast" in schema.__annotations__
)


def end_at_first_error(schema: object, model: type) -> None:
    """Set `fail_fast` in the core schema of a model: validation ends at the first invalid item.

    The schemas of other models in it stay unchanged, because each model sets its own.
    """
    if isinstance(schema, list):
        for part in schema:
            end_at_first_error(part, model)
    elif isinstance(schema, dict) and schema.get("cls", model) is model:
        if schema.get("type") in COLLECTIONS:
            schema["fail_fast"] = True
        for name, part in schema.items():
            if name not in ("metadata", "serialization"):
                end_at_first_error(part, model)
