"""Compiled backends' C functions, each with a Python twin for the pure build."""
