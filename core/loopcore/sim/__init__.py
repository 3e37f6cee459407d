"""Simulated networks, clocks and schedules for tests of asyncio programs."""
