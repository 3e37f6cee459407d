"""The simulated kernel: an operating system of tables, driven by one tape of choices."""
