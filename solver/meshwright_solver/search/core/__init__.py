"""The cost graph, the incumbent, and the signature that every search on cost graphs has."""
