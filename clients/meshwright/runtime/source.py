"""Where a plan comes from: a file, a URL, or an id at a service; kept on disk for a restart.

A rank asks the service for its slice and for the graph. What came is kept under its digest, and
asked again by it (ETag); where no answer comes it is read from there, and its digest checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from meshwright.client import Client
from meshwright.files import read_text, write_whole
from meshwright.planfile import read_plan
from meshwright.runtime.ranks import rank_strategy
from meshwright.schema import Document, Graph, InvalidInput, MeshwrightError, PlanError, Unavailable
from meshwright.schema.rank_strategy import RankStrategy

D = TypeVar("D", bound=Document)
Connect = Callable[[str], Client]


class PlanSource:
    """A plan by file, URL (http://host/v1/plans/plan_…) or id.

    server: of an id. cache: a folder; by default `meshwright` in the user's folder of caches.
    """

    def __init__(
        self,
        plan: str | Path,
        *,
        server: str | None = None,
        cache: Path | None = None,
        connect: Connect = Client,
    ) -> None:
        self._plan = plan
        self._server = server
        self._cache = cache or _cache_folder()
        self._connect = connect

    def of_rank(self, rank: int, world_size: int) -> tuple[RankStrategy, Graph]:
        """What a rank does, and the graph that it is about; PlanError for another world size."""
        strategy, graph = self._found(rank)
        if strategy.world_size != world_size:
            raise PlanError(
                f"the plan {strategy.plan} is for {strategy.world_size} ranks, this job has "
                f"{world_size}"
            )
        return strategy, graph

    def service(self) -> tuple[str, str] | None:
        """The URL of the service that has the plan, and its id there; None of a file."""
        text = str(self._plan)
        if isinstance(self._plan, Path) or Path(text).is_file():
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
                f"{text!r} is neither a file nor a URL; where it is the id of a plan, say at which "
                "server"
            )
        return self._server, text

    def _found(self, rank: int) -> tuple[RankStrategy, Graph]:
        at = self.service()
        return _of_file(Path(self._plan), rank) if at is None else self._of_service(*at, rank)

    def _of_service(self, server: str, plan: str, rank: int) -> tuple[RankStrategy, Graph]:
        kept = self._cache / f"{plan}.{rank}.json"
        known = _kept(kept, RankStrategy)
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
                self._keep(kept, strategy)
            return strategy, self._graph(client, strategy.graph)

    def _graph(self, client: Client, id_: str) -> Graph:
        path = self._cache / f"{id_}.json"
        known = _kept(path, Graph)
        if known is not None and known.id == id_:
            return known
        graph = client.get_graph(id_)
        self._keep(path, graph)
        return graph

    def _keep(self, path: Path, document: Document) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise InvalidInput(f"{path.parent} cannot be made: {failure.strerror}") from None
        write_whole(path, json.dumps({"id": document.id, "document": document.to_dict()}))


def _of_file(path: Path, rank: int) -> tuple[RankStrategy, Graph]:
    found = read_plan(path)
    if found.graph is None or found.setup is None:
        raise PlanError(
            f"{path} holds a plan without its graph and setup; `meshwright plan -o` writes all"
        )
    own = rank_strategy(found.plan, found.graph, found.setup, rank, found.topology)
    return own, found.graph


def _kept(path: Path, kind: type[D]) -> D | None:
    """A document kept earlier; None where there is none, or what is there is damaged."""
    if not path.is_file():
        return None
    try:
        held = json.loads(read_text(path))
        document = kind.from_dict(held["document"])
    except (MeshwrightError, ValueError, TypeError, KeyError):
        return None
    return document if document.id == held["id"] else None


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "meshwright"
