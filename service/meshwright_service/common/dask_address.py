"""Address of a Dask scheduler: plain TCP on this machine, mutual TLS to another one.

Dask's messages are pickles, so their sender can run code in this process. Every peer beyond the
loopback needs a certificate of the authority that the settings name.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from meshwright_service.common.sockets import is_loopback


@dataclass(frozen=True, slots=True)
class Scheduler:
    """An address, tcp://host:port or tls://host:port, and PEM files, which are empty without TLS.

    Raises ValueError for a malformed address or an insecure one.
    """

    address: str
    authority: str = ""
    certificate: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in ("tcp", "tls") or not parts.hostname or not parts.port:
            raise ValueError(
                f"{self.address!r} is no address. Use tcp://127.0.0.1:8786 or tls://host:8786"
            )
        if parts.scheme == "tls":
            if not (self.authority and self.certificate and self.key):
                raise ValueError(
                    f"{self.address} needs MESHWRIGHT_DASK_AUTHORITY, MESHWRIGHT_DASK_CERTIFICATE "
                    "and MESHWRIGHT_DASK_KEY: files in PEM"
                )
        elif not is_loopback(parts.hostname):
            raise ValueError(
                f"{self.address} is not on this machine, and Dask's messages are pickles, which "
                "need mutual TLS. Use tls://"
            )

    def written(self) -> str:
        """The scheduler as JSON text, for a child process."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str) -> Scheduler | None:
        """The scheduler of a text from `written`; None for an empty text."""
        return Scheduler(**json.loads(text)) if text else None
