"""Forwarded headers count only from trusted proxies."""

from __future__ import annotations

from pathlib import Path

import httpx2 as httpx
import pytest

from meshwright_service.common.settings import Settings
from tests.service.conftest import server

ADDRESS = "203.0.113.9"


@pytest.mark.parametrize(
    ("proxies", "is_believed"),
    [("", True), ("127.0.0.0/8", True), ("10.0.0.7, 127.0.0.1", True), ("10.0.0.0/8", False)],
)
def test_the_address_of_a_client_is_that_of_a_trusted_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: str, is_believed: bool
) -> None:
    """Without keys only clients of the same machine are served, so the address decides."""
    monkeypatch.setenv("MESHWRIGHT_TRUSTED_PROXIES", proxies)
    with server(tmp_path) as (url, _):
        for sent in (ADDRESS, f"127.0.0.1, {ADDRESS}"):  # the client wrote the first one itself
            answer = httpx.get(f"{url}/v1/plans", headers={"X-Forwarded-For": sent})
            assert answer.status_code == (401 if is_believed else 200), sent
        assert httpx.get(f"{url}/v1/plans").status_code == 200


@pytest.mark.parametrize("proxies", ["*", "proxy.example", "10.0.0.1/8", "10.0.0.1 10.0.0.2"])
def test_proxies_are_addresses_and_networks(proxies: str) -> None:
    with pytest.raises(ValueError, match="neither an IP address nor a network"):
        Settings(trusted_proxies=proxies)
