"""Errors of the service, in addition to those of documents in `meshwright.schema.errors`.

MeshwrightError
├── InvalidInput
│   ├── ParameterError      422
│   └── KeyReused           422
├── NotHttp                 400
├── NotJson                 400
├── DamagedBody             400
├── WrongContentType        415
├── SlowBody                408
├── Busy                    503
├── TooManyWaits            429
├── NoSuchPage              404
├── NotAllowed              405
├── WrongHost               421
├── WrongOrigin             403
├── LeaseLost               409
├── NoAgent                 409     also outcome of a job
├── HttpError               any other status of the web framework
├── WorkerLost              500     outcome of a job
├── TimedOut                504     outcome of a job
├── OutOfMemory             507     outcome of a job
└── Internal                500
"""

from __future__ import annotations

from meshwright.schema.errors import InvalidInput, MeshwrightError


class ParameterError(InvalidInput):
    """A query parameter or a header is not valid."""

    slug = "invalid-parameter"
    title = "The parameter is not valid"


class NotHttp(MeshwrightError):
    """The request is malformed, or its line and headers are too long."""

    slug = "not-http"
    title = "The request cannot be read"
    status = 400


class NotJson(MeshwrightError):
    """The body is not valid JSON."""

    slug = "not-json"
    title = "The body is not JSON"
    status = 400


class DamagedBody(MeshwrightError):
    """The compressed body cannot be decoded."""

    slug = "damaged-body"
    title = "The body cannot be decoded"
    status = 400


class WrongContentType(MeshwrightError):
    """The media type or the content encoding of the body is not supported."""

    slug = "unsupported-media-type"
    title = "The body has a type that is not understood"
    status = 415


class SlowBody(MeshwrightError):
    """The body did not arrive in time."""

    slug = "slow-body"
    title = "The body did not arrive in time"
    status = 408


class Busy(MeshwrightError):
    """The service is at its limit of concurrent work."""

    slug = "busy"
    title = "The service is busy"
    status = 503


class KeyReused(InvalidInput):
    """The Idempotency-Key was used for another request."""

    slug = "idempotency-key-reused"
    title = "The Idempotency-Key is another request's"


class TooManyWaits(MeshwrightError):
    """Too many requests of one tenant wait at the same time."""

    slug = "too-many-waits"
    title = "Too many requests wait"
    status = 429


class NoSuchPage(MeshwrightError):
    """No endpoint has this path."""

    slug = "no-such-endpoint"
    title = "There is no such endpoint"
    status = 404


class NotAllowed(MeshwrightError):
    """The endpoint does not answer this method."""

    slug = "method-not-allowed"
    title = "The endpoint does not answer this method"
    status = 405


class WrongHost(MeshwrightError):
    """The Host header does not name this service."""

    slug = "wrong-host"
    title = "This service is not that host"
    status = 421


class WrongOrigin(MeshwrightError):
    """A page of another origin sent a write."""

    slug = "wrong-origin"
    title = "The page of another host may not write"
    status = 403


class LeaseLost(MeshwrightError):
    """The agent has lost the lease of its measurement: claimed by another, cancelled or ended."""

    slug = "lease-lost"
    title = "The measurement is not yours any more"
    status = 409


class NoAgent(MeshwrightError):
    """No live agent can take the measurement."""

    slug = "no-agent"
    title = "No agent can measure this"
    status = 409


class HttpError(MeshwrightError):
    """The request could not be answered."""

    slug = "http"
    title = "The request could not be answered"


class WorkerLost(MeshwrightError):
    """The attempts of the job were lost as often as the service allows."""

    slug = "worker-lost"
    title = "The job was lost"


class TimedOut(MeshwrightError):
    """The search took longer than the service allows."""

    slug = "timed-out"
    title = "The search took too long"
    status = 504


class OutOfMemory(MeshwrightError):
    """The search took more memory than the service allows."""

    slug = "out-of-memory"
    title = "The search took too much memory"
    status = 507


class Internal(MeshwrightError):
    """An unexpected error of the service."""

    slug = "internal"
    title = "Something is wrong with the service"
