"""The HTTP API: request bodies, routes, problem documents, OpenAPI."""
