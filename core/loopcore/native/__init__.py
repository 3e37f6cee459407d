"""The last C that is not in `loopcore._native`: instance dicts and tasks, which CPython offers no function for."""
