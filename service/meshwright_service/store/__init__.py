"""The store: rows and documents of tenants, the list of plans, deletion, pagination."""
