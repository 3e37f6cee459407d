"""Backends that are broken on purpose, each in one way; the kit has to catch every one and name the guarantee.

A mutant subclasses a backend that keeps the contract and breaks one promise in it; its docstring says how a backend
comes to do that, `breaks` which guarantee has to be found broken. tests/testing/test_mutants.py runs them.
"""
