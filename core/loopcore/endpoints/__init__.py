"""Endpoints: the work of connecting and listening before a transport exists, one module for each kind.

Imports transports and what is below them.
"""
