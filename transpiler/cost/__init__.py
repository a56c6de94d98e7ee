"""The cost of a job before it runs: traffic, memory, time."""
