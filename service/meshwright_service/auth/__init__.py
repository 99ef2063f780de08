"""Authentication and authorization: API keys, principals, scopes."""
