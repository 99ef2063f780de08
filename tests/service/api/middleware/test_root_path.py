"""Requests with and without the root path, and the headers of their responses."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from meshwright_service.api.app import create_app
from meshwright_service.common.settings import Settings
from tests.service.conftest import local
from tests.service.samples import GRAPH

ROOT_PATH = "/tools/meshwright"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return local(create_app(Settings(data_dir=tmp_path, workers=0, root_path=ROOT_PATH)))


def test_both_forms_of_a_path_are_answered(client: TestClient) -> None:
    with client:
        for path in ("/healthz", "/", "/plans/x", "/v1/graphs"):
            assert client.get(path).status_code == 200, path
            assert client.get(ROOT_PATH + path).text == client.get(path).text, path
        assert client.get(ROOT_PATH).text == client.get("/").text


def test_a_path_that_only_begins_alike_is_another(client: TestClient) -> None:
    with client:
        assert client.get(f"{ROOT_PATH}s/healthz").status_code == 404


def test_quoted_parts_stay_quoted(client: TestClient) -> None:
    with client:
        for path in ("/v1/graphs/%2e%2e", "/v1/graphs/a%2Fb", "/static/x/%00"):
            assert client.get(ROOT_PATH + path).status_code == client.get(path).status_code, path


def test_locations_have_the_root_path_once(client: TestClient) -> None:
    with client:
        location = client.post("/v1/graphs", json=GRAPH).headers["Location"]
        assert location.startswith(f"{ROOT_PATH}/v1/graphs/graph_")
        assert client.get(location).status_code == 200


def test_pages_name_their_files_below_the_root_path(client: TestClient, tmp_path: Path) -> None:
    with client:
        page = client.get("/graphs").text
    assert f'data-root-path="{ROOT_PATH}"' in page
    assert 'href="/static' not in page
    assert f'src="{ROOT_PATH}/static/' in page
    without = page.replace(f' data-root-path="{ROOT_PATH}"', "").replace(ROOT_PATH, "")
    with local(create_app(Settings(data_dir=tmp_path, workers=0))) as plain:
        assert plain.get("/graphs").text == without


@pytest.mark.parametrize("path", ["tools", "/", "/tools/", "//x", "/a/../b", '/"', "/a b", "/a?b"])
def test_a_root_path_is_a_plain_path(path: str) -> None:
    with pytest.raises(ValueError, match="Use a path such as"):
        Settings(root_path=path)
