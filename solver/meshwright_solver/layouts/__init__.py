"""Layouts of one tensor on a mesh, and redistributions within a mesh and between two meshes."""
