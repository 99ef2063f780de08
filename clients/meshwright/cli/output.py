"""Output files of commands: `-o` is checked before the work, and a result is never lost.

    Output = Annotated[Path | None, typer.Option("-o", help=..., callback=writable)]

A result that cannot be written after all is kept in the cache folder, and the error says where.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import RenderableType

from meshwright.cli.consoles import notices, results
from meshwright.common.files import cache_folder, check_writable, write_whole
from meshwright.schema import Document, InvalidInput, MeshwrightError
from meshwright.schema.json_writer import written
from meshwright.schema.model import Model

D = TypeVar("D", bound=Document)
KEPT = "results"  # folder of results within the cache folder


def writable(path: Path | None) -> Path | None:
    """An option's callback: InvalidInput where a file cannot be written to this path."""
    if path is not None:
        check_writable(path)
    return path


def save(path: Path, document: Document, *, name: str = "") -> None:
    """Write a document; where that fails, keep it under its id and raise InvalidInput.

    name: of the result, where it is not the document's id, as for the plan of a plan file.
    """
    text = document.to_json() + "\n"
    try:
        write_whole(path, text)
    except MeshwrightError as failure:
        _keep(text, name or document.id, failure)


def print_json(result: Model | list[dict[str, Any]]) -> None:
    """A result as JSON on standard output, for programs."""
    if isinstance(result, list):
        typer.echo(json.dumps(result, ensure_ascii=False))
    else:
        typer.echo(written(result))


def tell(
    result: D, render: Callable[[D], RenderableType], *, output: Path | None, as_json: bool
) -> None:
    """A result to its file, as JSON, or else rendered on standard output."""
    if output is not None:
        save(output, result)
        say_written(output)
    if as_json:
        print_json(result)
    elif output is None:
        results().print(render(result))


def say_written(path: Path) -> None:
    notices().print(f"wrote {path}", markup=False, soft_wrap=True)


def _keep(text: str, name: str, failure: MeshwrightError) -> NoReturn:
    """Write a result to the cache folder, or else to a folder of the user's for temporary files."""
    for make_folder in (_cache_folder, _temporary_folder):
        try:
            folder = make_folder()  # there may be no folder for temporary files
            folder.mkdir(parents=True, exist_ok=True)
            kept = folder / f"{name}.json"
            write_whole(kept, text)
        except (OSError, InvalidInput):
            continue
        raise InvalidInput(
            f"{failure.detail}. The result {name} is kept in {kept}. Copy it from there"
        ) from None
    raise InvalidInput(
        f"{failure.detail}. The result {name} could not be kept in {cache_folder() / KEPT} either. "
        "Free space on the disk and run the command again"
    ) from None


def _cache_folder() -> Path:
    return cache_folder() / KEPT


def _temporary_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    own = Path(tempfile.gettempdir()) / f"meshwright-{user}"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    return own / KEPT
