"""Stands in for Cython's own module of directives where Cython is not installed: the code is interpreted."""

from typing import Final

compiled: Final = False
