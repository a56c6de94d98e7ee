"""A parameter server, the same over every transport."""
