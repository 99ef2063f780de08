"""What a certificate says, on one line."""

from __future__ import annotations

from meshwright.schema import Certificate


def certificate_text(certificate: Certificate) -> str:
    """The outcome and what it rests on."""
    if certificate.outcome == "verified":
        return (
            f"verified: {certificate.tensors} tensors and {certificate.gradients} gradients equal "
            f"the unsharded run (worst difference {certificate.worst_error:.1e})"
        )
    return f"{certificate.outcome}: {certificate.detail}"
