"""The pin between the two distributions, added while the server is built."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PinHook(BuildHookInterface[Any]):
    """Adds the exact version of `meshwright` to the requirements of a wheel.

    Both distributions are built from one tree and share the schema, so they have one version. A
    local part of the version is left out: `==1.2.dev3` also matches `1.2.dev3+gabc`. An editable
    installation gets no pin, because its version is that of the commit at which it was installed.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pin; version: `standard` or `editable`."""
        if version == "standard":
            public = self.metadata.version.partition("+")[0]
            build_data["dependencies"].append(f"meshwright=={public}")
