"""Endpoints: the work of connecting and listening before a transport exists."""
