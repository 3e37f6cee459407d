# The functions have no types of their own: this file makes the module a compiled one.
