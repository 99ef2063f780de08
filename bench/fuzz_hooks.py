"""What schemathesis is told of the server that bench.fuzz gives it: the ids of what is there.

By the schema alone an id is any string, and nearly every request for one ends at its 404.
"""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis

IDS = "FUZZED_IDS"  # JSON in the environment: by the name of a parameter


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """As often as not, what is there in place of what was made up."""
    del context
    return _with_ids(path_parameters)


@schemathesis.hook
def map_query(context: Any, query: Any) -> Any:
    """The same of queries; of a list every item."""
    del context
    return _with_ids(query)


def _with_ids(made_up: Any) -> Any:
    there = json.loads(os.environ[IDS])
    if not isinstance(made_up, dict):
        return made_up
    return {
        name: _mixed(there[name], value) if name in there else value
        for name, value in made_up.items()
    }


def _mixed(known: str, made_up: Any) -> Any:
    if len(str(made_up)) % 2 == 0:
        return made_up
    return [known] * len(made_up) if isinstance(made_up, list) else known
