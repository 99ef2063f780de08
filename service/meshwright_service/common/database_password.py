"""The password of a database, set apart from its URL."""

from __future__ import annotations

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError


def url_with_password(url: str, password: str) -> str:
    """A URL of a database server with the password of its role; a URL of SQLite as it is.

    Raises ValueError where the URL is none, names no role, or has a password already.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(
            "the database URL is not one. Write postgresql://ROLE@HOST/DATABASE"
        ) from None
    if parsed.get_backend_name() == "sqlite":
        return url
    if not parsed.username:
        raise ValueError("the database URL names no role. Write postgresql://ROLE@HOST/DATABASE")
    if parsed.password is not None:
        raise ValueError("the database URL has a password too. Remove one of them")
    return parsed.set(password=password).render_as_string(hide_password=False)
