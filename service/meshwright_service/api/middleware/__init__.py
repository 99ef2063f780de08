"""Middleware: authentication, hosts, access log, compression, 304 answers."""
