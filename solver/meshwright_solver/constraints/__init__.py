"""Constraints of a request on strategies: pins, stated degrees, filters, meshes."""
