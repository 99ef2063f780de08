"""Certificates as one line of text."""

from __future__ import annotations

from meshwright.schema import Certificate


def certificate_text(certificate: Certificate) -> str:
    """The outcome of the verification and its evidence."""
    if certificate.outcome != "verified":
        return f"{certificate.outcome}: {certificate.detail}"
    equal = (
        f"verified: {certificate.tensors} tensors and {certificate.gradients} gradients equal the "
        f"unsharded run (worst difference {certificate.worst_error:.1e})"
    )
    if certificate.buckets:
        equal += f"; {certificate.buckets} buckets do what their tensors' own collectives do"
    return f"{equal}; {certificate.detail}" if certificate.detail else equal
