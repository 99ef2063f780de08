"""Plan sources: a file, a URL, or an id at a service, with a disk cache for restarts.

A rank requests its strategy and the graph from the service. The cache stores both with their ids
and revalidates the strategy by its ETag. If the service is unavailable, the rank reads the cache
and checks the id.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from meshwright.client import Client
from meshwright.common.files import cache_folder, read_text, write_whole
from meshwright.planfile import PlanFile, read_plan
from meshwright.runtime.ranks import rank_strategy
from meshwright.schema import Document, Graph, InvalidInput, MeshwrightError, PlanError, Unavailable
from meshwright.schema.rank_strategy import RankStrategy

D = TypeVar("D", bound=Document)
Connect = Callable[[str], Client]


class PlanSource:
    """The source of a plan: a file, its content, a URL (http://host/v1/plans/plan_…) or an id.

    `server` is the service of an id. `cache` is a folder, by default `meshwright` in the user's
    cache folder.
    """

    def __init__(
        self,
        plan: str | Path | PlanFile,
        *,
        server: str | None = None,
        cache: Path | None = None,
        connect: Connect = Client,
    ) -> None:
        self._plan = plan
        self._server = server
        self._cache = cache or cache_folder()
        self._connect = connect

    def of_rank(self, rank: int, world_size: int) -> tuple[RankStrategy, Graph]:
        """The strategy of a rank, and its graph; raises PlanError for another world size."""
        strategy, graph = self._load(rank)
        if strategy.world_size != world_size:
            raise PlanError(
                f"the plan {strategy.plan} is for {strategy.world_size} ranks, this job has "
                f"{world_size}"
            )
        return strategy, graph

    def service(self) -> tuple[str, str] | None:
        """The URL of the service that has the plan, and the plan's id; None for a file."""
        if isinstance(self._plan, (Path, PlanFile)):
            return None
        text = self._plan
        if Path(text).is_file():
            return None
        if urlsplit(text).scheme in ("http", "https"):
            base, _, id_ = text.rstrip("/").rpartition("/v1/plans/")
            if not base:
                raise InvalidInput(
                    f"{text!r} is not the URL of a plan: http://host/v1/plans/plan_…"
                )
            return base, id_
        if self._server is None:
            raise InvalidInput(
                f"{text!r} is neither a file nor a URL. If it is the id of a plan, give its server"
            )
        return self._server, text

    def _load(self, rank: int) -> tuple[RankStrategy, Graph]:
        service = self.service()
        if service is None:
            if isinstance(self._plan, PlanFile):
                return _of_content(self._plan, "the plan file", rank)
            path = Path(self._plan)
            return _of_content(read_plan(path), str(path), rank)
        return self._of_service(*service, rank)

    def _of_service(self, server: str, plan: str, rank: int) -> tuple[RankStrategy, Graph]:
        path = self._cache / f"{plan}.{rank}.json"
        known = _read_cache(path, RankStrategy)
        if known is not None and (known.plan, known.rank) != (plan, rank):
            known = None
        with self._connect(server) as client:
            try:
                strategy = client.get_rank_strategy(plan, rank, known)
            except Unavailable:
                if known is None:
                    raise
                strategy = known
            if strategy is not known:
                self._write_cache(path, strategy)
            return strategy, self._graph(client, strategy.graph)

    def _graph(self, client: Client, id_: str) -> Graph:
        path = self._cache / f"{id_}.json"
        known = _read_cache(path, Graph)
        if known is not None and known.id == id_:
            return known
        graph = client.get_graph(id_)
        self._write_cache(path, graph)
        return graph

    def _write_cache(self, path: Path, document: Document) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise InvalidInput(f"{path.parent} cannot be created: {failure.strerror}") from None
        write_whole(path, json.dumps({"id": document.id, "document": document.to_dict()}))


def _of_content(file: PlanFile, name: str, rank: int) -> tuple[RankStrategy, Graph]:
    if file.graph is None or file.setup is None:
        raise PlanError(
            f"{name} holds a plan without its graph and setup. Use a file of `meshwright plan -o`"
        )
    strategy = rank_strategy(file.plan, file.graph, file.setup, rank, file.topology)
    return strategy, file.graph


def _read_cache(path: Path, kind: type[D]) -> D | None:
    """A cached document; None if there is none or the file is damaged."""
    if not path.is_file():
        return None
    try:
        entry = json.loads(read_text(path))
        document = kind.from_dict(entry["document"])
    except (MeshwrightError, ValueError, TypeError, KeyError):
        return None
    return document if document.id == entry["id"] else None
