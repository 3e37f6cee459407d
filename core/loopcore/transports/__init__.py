"""Transports: connections, datagrams, pipes, processes and servers, as asyncio's interfaces describe them.

A transport is the interface and the states of a connection; a driver does its work on one of the two ports.

Imports the kernel and services.
"""

from loopcore.tracebacks import show_sources

show_sources(__name__, __path__)
