"""The stream of hook calls of one program, which is that of a built-in backend on every other."""
