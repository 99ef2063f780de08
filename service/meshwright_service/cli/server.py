"""The web server: graceful shutdown at the first signal, immediate exit at the second.

A graceful shutdown has these steps:

1. The server accepts no more connections, and /readyz fails.
2. The workers end their searches and queue the jobs again, for other workers.
3. Long polls are answered with the current state of their jobs.
4. The other open requests are answered.
"""

from __future__ import annotations

from pathlib import Path
from types import FrameType

import uvicorn

from meshwright_service.api.app import create_app
from meshwright_service.api.state import State
from meshwright_service.cli.http_connection import connection
from meshwright_service.common.settings import Settings

FINISH_S = 20  # chosen: below the 30 s that supervisors leave between SIGTERM and SIGKILL


class Web(uvicorn.Server):
    """The web server of the service."""

    def __init__(self, settings: Settings) -> None:
        app = create_app(settings)
        self._service: State = app.state.service
        super().__init__(
            uvicorn.Config(
                app,
                http=connection(settings.headers_s),
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="on",
                timeout_graceful_shutdown=FINISH_S,
                server_header=False,
                # None: FORWARDED_ALLOW_IPS of uvicorn, else 127.0.0.1
                forwarded_allow_ips=settings.trusted_proxies or None,
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
            )
        )

    @property
    def service(self) -> State:
        return self._service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGINT and SIGTERM."""
        if self.should_exit:
            self.force_exit = True
        self._service.begin_to_stop()
        super().handle_exit(sig, frame)


def check_tls(settings: Settings) -> None:
    """Raise ValueError unless certificate and key are both readable and the key is private.

    PostgreSQL's rule for the key applies: only its owner can read it, or root owns it and one group
    can read it.
    """
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ValueError("--tls-cert and --tls-key: one is of no use without the other")
    if settings.tls_key is None:
        return
    for option, path in (("--tls-cert", settings.tls_cert), ("--tls-key", settings.tls_key)):
        try:
            Path(str(path)).read_bytes()
        except OSError as failure:
            raise ValueError(f"{option}: {path}: {failure.strerror}") from None
    status = settings.tls_key.stat()
    others = 0o037 if status.st_uid == 0 else 0o077
    if status.st_mode & others:
        raise ValueError(
            f"--tls-key: {settings.tls_key} can be read by others (mode "
            f"{status.st_mode & 0o777:04o}). Set the mode 600, or 640 if root owns it"
        )
