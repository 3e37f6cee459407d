# Compiled, because its functions are called for each operation; it declares no types.
