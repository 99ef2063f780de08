"""Transfers between two meshes: what devices hold, who sends what to whom, what links carry."""
