"""The static check of a job: what would hang, be lost, or be computed wrongly."""
