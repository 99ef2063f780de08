"""Transfers between two meshes: parts on devices, sends between them, and the load of links."""
