"""The errors of Meshwright.

    MeshwrightError
    ├── InvalidInput            422, and one class for each kind of document
    │   ├── GraphError
    │   ├── RuleError
    │   ├── TopologyError
    │   ├── SetupError
    │   ├── LayoutError
    │   ├── RequestError
    │   ├── PlanError
    │   │   └── ModuleMismatch
    │   ├── ConversionError
    │   └── CheckpointError
    ├── TooLarge                413
    ├── NotFound                404
    ├── Unauthorized            401
    ├── Forbidden               403
    ├── InUse                   409
    ├── CannotExport            409
    ├── TooManyJobs             429
    ├── Unavailable             503
    └── RankLost                503

A message names the failure, its cause and the remedy. `pointer` is the JSON pointer of the invalid
value in the document, if it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class MeshwrightError(Exception):
    """Meshwright could not do what was asked."""

    slug: ClassVar[str] = "error"
    title: ClassVar[str] = "Meshwright could not do what was asked"
    status: ClassVar[int] = 500

    received: Mapping[str, Any] | None = None  # in a client: the problem document of the response

    def __init__(self, detail: str, *, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer

    def within(self, prefix: str) -> MeshwrightError:
        """The error with its pointer relative to a document that has this one under `prefix`."""
        return type(self)(self.detail, pointer=prefix + self.pointer)

    def problem(self, instance: str | None = None) -> dict[str, Any]:
        """The error as an RFC 9457 problem document."""
        document: dict[str, Any] = {
            "type": f"urn:meshwright:problem:{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "errors": [{"pointer": self.pointer, "detail": self.detail}],
        }
        if instance is not None:
            document["instance"] = instance
        return document


class InvalidInput(MeshwrightError):
    """A document is well-formed and invalid."""

    slug = "invalid-input"
    title = "The input is not valid"
    status = 422

    fault = ""  # the violated rule of a field, as pydantic names its errors


class GraphError(InvalidInput):
    """An operator graph that cannot be a program."""

    slug = "invalid-graph"
    title = "The operator graph is not valid"


class RuleError(InvalidInput):
    """A sharding rule that cannot be read, or that does not fit its op's shapes."""

    slug = "invalid-rule"
    title = "The sharding rule is not valid"


class TopologyError(InvalidInput):
    """A topology that cannot be a cluster, or a preset name that does not exist."""

    slug = "invalid-topology"
    title = "The topology is not valid"


class SetupError(InvalidInput):
    """A training setup that contradicts itself or the graph."""

    slug = "invalid-setup"
    title = "The setup is not valid"


class LayoutError(InvalidInput):
    """A layout or a strategy that its tensor, op or mesh cannot have."""

    slug = "invalid-layout"
    title = "The layout is not valid"


class RequestError(InvalidInput):
    """A planning request whose parts do not fit together."""

    slug = "invalid-request"
    title = "The request is not valid"


class PlanError(InvalidInput):
    """A plan document that is damaged or belongs to something else."""

    slug = "invalid-plan"
    title = "The plan is not valid"


class ModuleMismatch(PlanError):
    """A module whose program differs from the graph of the plan."""

    slug = "module-mismatch"
    title = "The module is not that of the plan"


class ConversionError(InvalidInput):
    """A layout or a strategy that the other system, or Meshwright, cannot express."""

    slug = "not-expressible"
    title = "The layout cannot be expressed there"


class CheckpointError(InvalidInput):
    """A checkpoint that is damaged, belongs to another plan, or could not be written."""

    slug = "invalid-checkpoint"
    title = "The checkpoint cannot be used"


class TooLarge(MeshwrightError):
    """An input beyond a stated limit."""

    slug = "too-large"
    title = "The input is too large"
    status = 413


class NotFound(MeshwrightError):
    """No document has this id."""

    slug = "not-found"
    title = "There is no such document"
    status = 404


class Unauthorized(MeshwrightError):
    """The API key is missing, unknown, revoked or expired."""

    slug = "unauthorized"
    title = "The service asks for a key"
    status = 401


class Forbidden(MeshwrightError):
    """The API key is valid and lacks the permission."""

    slug = "forbidden"
    title = "The key may not do this"
    status = 403


class InUse(MeshwrightError):
    """The document cannot be deleted because another document needs it."""

    slug = "in-use"
    title = "Something else needs this"
    status = 409


class CannotExport(MeshwrightError):
    """The export format cannot describe the plan, or its target would reject it."""

    slug = "cannot-export"
    title = "The plan cannot be exported whole"
    status = 409


class TooManyJobs(MeshwrightError):
    """The tenant has the maximum number of queued and running jobs."""

    slug = "too-many-jobs"
    title = "Too many jobs wait already"
    status = 429


class RankLost(MeshwrightError):
    """A rank of a training job ended or did not start."""

    slug = "rank-lost"
    title = "A rank of the job is gone"
    status = 503


class Unavailable(MeshwrightError):
    """The service cannot be reached or cannot answer at the moment."""

    slug = "unavailable"
    title = "The service is not available"
    status = 503
