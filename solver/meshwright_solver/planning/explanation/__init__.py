"""Explanations: a search for each alternative strategy of an op, and the reason it lost."""
