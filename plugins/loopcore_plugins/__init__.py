"""The plugins that come with loopcore, each found by its entry point. (PYTEST_DONT_REWRITE)"""
