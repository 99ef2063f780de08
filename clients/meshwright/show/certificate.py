"""What a certificate says, on one line."""

from __future__ import annotations

from meshwright.schema import Certificate


def certificate_text(certificate: Certificate) -> str:
    """The outcome and what it rests on."""
    if certificate.outcome != "verified":
        return f"{certificate.outcome}: {certificate.detail}"
    equal = (
        f"verified: {certificate.tensors} tensors and {certificate.gradients} gradients equal the "
        f"unsharded run (worst difference {certificate.worst_error:.1e})"
    )
    if not certificate.buckets:
        return equal
    return f"{equal}; {certificate.buckets} buckets do what their tensors' own collectives do"
