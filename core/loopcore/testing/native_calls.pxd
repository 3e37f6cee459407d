# The functions declare no types: this file makes the module a compiled one.
