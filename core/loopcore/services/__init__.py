"""What a loop offers beside scheduling: executor, names, signals, socket calls. Each is given ports, never the loop."""
