"""The options in which the requests of plans differ from those of other plans of their graph."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, func, select

from meshwright.reports.stated_options import difference_texts
from meshwright_service.common.tenant import Tenant
from meshwright_service.store.tables import PlanRow

Options = str  # the stated options of a request as canonical JSON


def differences_of_requests(
    connection: Connection, tenant: Tenant, graphs: Collection[str]
) -> dict[tuple[str, Options], str]:
    """The differences as text, by graph and stated options, of all plans of these graphs.

    One query, whose rows are the distinct requests. Plans of earlier versions, whose options are
    unknown, do not count.
    """
    if not graphs:
        return {}
    statement = (
        select(PlanRow.graph, PlanRow.options, func.count())
        .where(
            PlanRow.tenant == tenant,
            PlanRow.graph.in_(sorted(graphs)),
            PlanRow.options.is_not(None),
        )
        .group_by(PlanRow.graph, PlanRow.options)
    )
    siblings: defaultdict[str, list[tuple[Options, int]]] = defaultdict(list)
    for graph, options, count in connection.execute(statement):
        siblings[graph].append((str(options), count))
    texts: dict[tuple[str, Options], str] = {}
    for graph, requests in siblings.items():
        stated = [(json.loads(options), count) for options, count in requests]
        for (options, _), text in zip(requests, difference_texts(stated), strict=True):
            texts[graph, options] = text
    return texts
