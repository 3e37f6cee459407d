"""Transports: what turns the bytes of a descriptor into calls of a protocol."""
