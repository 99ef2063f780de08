"""Logging on standard error: JSON lines, or plain text on a terminal.

`about` sets the context fields of a block (request, job, attempt, tenant, worker); every line of
the block has them. Secrets are replaced by asterisks.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from pythonjsonlogger.json import JsonFormatter

from meshwright_service.auth.api_keys import MARK
from meshwright_service.common.settings import Format
from meshwright_service.jobs.events import JobChange
from meshwright_service.store.database import Database

log = logging.getLogger(__name__)
SECRETS = (
    (re.compile(rf"\b{MARK}[A-Za-z0-9_-]{{8,}}"), f"{MARK}***"),
    (re.compile(r"(://[^/@\s]*:)[^/@\s]+@"), r"\1***@"),
    (re.compile(r"(?i)(\bpassword\b\\*[\"']?\s*[=:]\s*\\*[\"']?)[^\s\"',)\\]+"), r"\1***"),
    (re.compile(r"(?i)(\bauthorization\b\\*[\"']?\s*[,=:]\s*b?\\*[\"']?)[^\"'\r\n\\]+"), r"\1***"),
)
_about: ContextVar[dict[str, object] | None] = ContextVar("about", default=None)


@contextmanager
def about(**what: object) -> Iterator[None]:
    """Add context fields to every line that is logged within the block."""
    token = _about.set({**(_about.get() or {}), **what})
    try:
        yield
    finally:
        _about.reset(token)


def configure(kind: Format, stream: TextIO | None = None) -> None:
    """Configure logging to standard error or `stream`; auto: plain text on a terminal."""
    stream = stream or sys.stderr
    is_text = kind == "text" or (kind == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Text() if is_text else _Json())
    handler.addFilter(_add_context)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def log_changes(database: Database) -> None:
    """Log every state change of a job."""
    database.listen(_log_change)


def without_secrets(line: str) -> str:
    """The line with keys and passwords replaced by asterisks."""
    for pattern, instead in SECRETS:
        line = pattern.sub(instead, line)
    return line


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _Json(JsonFormatter):
    def __init__(self) -> None:
        super().__init__(
            "{levelname}{name}{message}",
            style="{",
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp="at",
        )

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def _add_context(record: logging.LogRecord) -> bool:
    for name, value in (_about.get() or {}).items():
        if name not in record.__dict__:
            setattr(record, name, value)
    return True


def _log_change(change: object) -> None:
    if not isinstance(change, JobChange):
        return
    log.info(
        "job %s %s%s",
        change.job,
        change.state,
        f": {change.outcome}" if change.outcome else "",
        extra={
            "job": change.job,
            "tenant": change.tenant,
            "kind": change.kind,
            "state": change.state,
            "attempt": change.attempt,
            **({"worker": change.worker} if change.worker else {}),
            **({"outcome": change.outcome} if change.outcome else {}),
            **({"is_lost": True} if change.is_lost else {}),
            **({"seconds": round(change.ran_s, 3)} if change.ran_s is not None else {}),
        },
    )
