"""Sharding propagation: strategies that spread from a few seeds over a cost graph."""
