"""What a job costs before it runs: traffic, memory, time."""
