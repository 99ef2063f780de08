"""Explanations: every other strategy of an op, searched again, and why it lost."""
