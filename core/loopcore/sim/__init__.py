"""A simulated machine for asyncio programs: find a race, shrink it, replay it."""
