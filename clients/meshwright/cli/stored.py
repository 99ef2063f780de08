"""Plans that commands are told of: files, or ids where a service is named.

    meshwright show plan.json
    meshwright show plan_… --server URL      (or MESHWRIGHT_SERVER=URL)

A name that is a file is read as one, whatever service is named.
"""

from __future__ import annotations

from pathlib import Path

from meshwright.client import Client
from meshwright.planfile import PlanFile, read_plan
from meshwright.schema import Certificate, NotFound

SERVER = "MESHWRIGHT_SERVER"  # names the service of all commands


def service_of(server: str | None, *names: str) -> str | None:
    """The service that is to be asked of these names; None where all are files."""
    return None if all(Path(name).is_file() for name in names) else server


def plan_of(server: str | None, name: str) -> PlanFile:
    """The plan of a file or of an id, with the documents it is about."""
    asked = service_of(server, name)
    if asked is None:
        return read_plan(Path(name))
    with Client(asked) as client:
        plan = client.get_plan(name)
        return PlanFile(
            plan=plan,
            graph=client.get_graph(plan.graph),
            topology=client.get_topology(plan.topology),
            setup=client.get_setup(plan.setup),
            certificate=certificate_of(client, plan.id),
        )


def certificate_of(client: Client, plan: str) -> Certificate | None:
    """What executing a stored plan showed, where somebody asked for that."""
    try:
        return client.certificate(plan)
    except NotFound:
        return None
