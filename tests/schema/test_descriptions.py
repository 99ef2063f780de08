"""Every field of every document has a description, which JSON Schema and OpenAPI show."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

import pytest

import meshwright.schema
from meshwright.planfile import PlanFile
from meshwright.schema import Model

SCHEMAS = Path(__file__).parents[2] / "docs/schema"


def models() -> list[type[Model]]:
    modules = [
        importlib.import_module(f"meshwright.schema.{info.name}")
        for info in pkgutil.iter_modules(meshwright.schema.__path__)
    ]
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Model)
    }
    return sorted({*kinds, PlanFile}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", models(), ids=lambda kind: kind.__name__)
def test_every_field_has_a_description_in_sentences(kind: type[Model]) -> None:
    for name, field in kind.model_fields.items():
        assert field.description, f"{kind.__name__}.{name} has no description"
        assert field.description.endswith("."), f"{kind.__name__}.{name}: {field.description}"


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_property_of_the_published_schema_has_a_description(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    for part in (schema, *schema.get("$defs", {}).values()):
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), f"{part['title']}.{name} has no description"
