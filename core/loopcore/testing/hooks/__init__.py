"""The stream of hook calls of one program, which must be the same on a built-in backend and on every other."""
