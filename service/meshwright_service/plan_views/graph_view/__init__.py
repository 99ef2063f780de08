"""The graph view: modules as boxes that open, repeats folded, positions computed here."""
