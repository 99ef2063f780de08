"""Small mixed clusters, for the tests of pipelines over several kinds of devices."""

from __future__ import annotations

from meshwright.schema import DeviceGroup, Link, Topology
from tests.solver.small_graphs import topology


def beside(*groups: Topology, uplink: Link | None = None) -> Topology:
    """One cluster of these groups, each reaching the others by its slowest link or by one that is
    given."""
    first, *others = groups
    return first.model_copy(
        update={
            "name": "mixed",
            "uplink": uplink or first.levels[0].link,
            "beside": tuple(
                DeviceGroup(
                    device=own.device,
                    levels=own.levels,
                    uplink=uplink or own.levels[0].link,
                    host=own.host,
                )
                for own in others
            ),
        }
    )


def kind(name: str, *sizes: int, **rates: float) -> Topology:
    """Devices of one kind, called so."""
    found = topology(*sizes, **rates)
    return found.model_copy(update={"device": found.device.model_copy(update={"name": name})})
