"""The key with which clients ask a service: from the environment, or a file that it names."""

from __future__ import annotations

import os
from pathlib import Path

from meshwright.schema import InvalidInput

KEY = "MESHWRIGHT_API_KEY"
KEY_FILE = "MESHWRIGHT_API_KEY_FILE"


def api_key() -> str | None:
    """The key of MESHWRIGHT_API_KEY, else of the file MESHWRIGHT_API_KEY_FILE, else None.

    Raises InvalidInput of a file that cannot be read, and of what can be no key.
    """
    given = os.environ.get(KEY)
    if given:
        return checked_key(given, KEY)
    path = os.environ.get(KEY_FILE)
    if not path:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        said = failure.strerror if isinstance(failure, OSError) else "it is no text"
        raise InvalidInput(f"the file of the API key {path} cannot be read: {said}") from None
    return checked_key(text, path)


def authorization(key: str) -> dict[str, str]:
    """The header with which a request says its key."""
    return {"Authorization": f"Bearer {key}"}


def checked_key(text: str, source: str) -> str:
    """A key without the space around it; raises InvalidInput, which does not repeat it."""
    key = text.strip()
    if not key.startswith("mw_") or not all("!" <= character <= "~" for character in key):
        raise InvalidInput(f"what {source} holds is no API key: one is a single word, mw_…")
    return key
