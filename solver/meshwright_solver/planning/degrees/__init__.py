"""Plans of stated parallel degrees: the degrees restrict the search."""
