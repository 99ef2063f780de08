"""Drawings of plans: modules as boxes that open, repeats folded, positions worked out here."""
