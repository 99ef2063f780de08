"""What to choose: layouts, strategies, searches, plans."""
