"""Accounting: an assignment of strategies and layouts, and its cost item by item."""
