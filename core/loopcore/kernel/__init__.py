"""The only code that runs callbacks: handles, timers, queues, futures, tasks and the tick."""
