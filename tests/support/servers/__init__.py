"""Servers that tests start: brokers that ask who a client is, a registry, a web server."""
