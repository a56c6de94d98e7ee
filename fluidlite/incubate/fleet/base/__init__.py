"""What all of Fleet shares: who a process is in its job, and what a fleet does."""
