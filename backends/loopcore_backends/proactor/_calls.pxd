# Compiled, so that the calls that are made for each operation are; it has no types of its own.
