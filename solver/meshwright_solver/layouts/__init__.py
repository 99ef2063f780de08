"""Layouts of one tensor on a mesh, and what moving it costs, within a mesh and between two."""
