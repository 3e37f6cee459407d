"""The file system of a simulated host: its disk, open files, and what stands in for Python's functions of files."""
