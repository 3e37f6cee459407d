"""Services of a loop besides scheduling: executor, names, signals, socket calls. Each gets ports, never the loop."""
