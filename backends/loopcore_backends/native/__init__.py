"""What compiled backends take from C, each with a twin in Python for the pure build."""
