"""Strategies of ops and parameters on a mesh, and what each of them costs."""
