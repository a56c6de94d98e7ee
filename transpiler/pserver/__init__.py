"""Parameter servers: parameters cut and placed, the trainer rewritten, each server built."""
