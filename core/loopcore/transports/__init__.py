"""Transports: they turn the bytes of a descriptor into calls of a protocol."""
