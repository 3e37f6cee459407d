"""A simulated kernel: run a program on simulated time, try many schedules, replay the one that fails."""
