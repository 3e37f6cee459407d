"""The backends that ship with loopcore, each found by its entry point. (PYTEST_DONT_REWRITE)"""
