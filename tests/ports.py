"""Ports of tests that have to name one before it is listened on."""

from __future__ import annotations

import os
import socket
from itertools import count

# below those that the kernel gives to sockets that ask for any (`ip_local_port_range`)
LOWEST, EACH = 20_000, 1_000
_numbers = count()


def unused_port() -> int:
    """No other socket is given it before it is bound: each process of the tests has a range."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = LOWEST + worker % 10 * EACH + (os.getpid() + next(_numbers)) % EACH
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
