"""Compiles the observer, if it can: a compiled class needs a compiled base class, a C compiler, and Cython."""

from setuptools import Extension, setup

from loopcore.build_info import describe_build

observer = Extension("loopcore_plugin_template.durations", ["loopcore_plugin_template/durations.py"], optional=True)
setup(ext_modules=[observer] if describe_build().compiled else [])
