"""loopcore: an asyncio event loop that can be taken apart."""
