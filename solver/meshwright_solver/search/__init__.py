"""Searches on cost graphs; they know neither ops nor meshes."""
