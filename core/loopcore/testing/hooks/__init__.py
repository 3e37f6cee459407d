"""The stream of hook calls of one program, which is the same on every backend."""
