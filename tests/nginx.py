"""nginx with the configuration of docs/how-to/operations.md, at ports and files of a test."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import unused_port

ROOT = Path(__file__).resolve().parents[1]
OPERATIONS = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""


def documented() -> str:
    """The `server` block of the documentation."""
    (text,) = re.findall(r"^```nginx\n(.*?)^```$", OPERATIONS, re.MULTILINE | re.DOTALL)
    return str(text)


@contextmanager
def proxy(
    folder: Path, target: str, certificate: tuple[Path, Path], *, server: str
) -> Iterator[str]:
    """A proxy of the service at `target`; yields its origin, such as https://127.0.0.1:20001."""
    port = unused_port()
    text = re.sub(r"listen \d+", f"listen 127.0.0.1:{port}", server)
    text = re.sub(r"(ssl_certificate) .*;", rf"\1 {certificate[0]};", text)
    text = re.sub(r"(ssl_certificate_key) .*;", rf"\1 {certificate[1]};", text)
    text = text.replace("http://127.0.0.1:8780", target)
    configuration = folder / "nginx.conf"
    configuration.write_text(MAIN.format(folder=folder, server=text), encoding="utf-8")
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
    assert program, "this test needs nginx: apt-get install nginx-light"
    process = subprocess.Popen(
        [program, "-c", configuration, "-e", folder / "nginx.log"], stderr=subprocess.PIPE
    )
    try:
        _wait_for(port, process)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("nginx does not listen")
