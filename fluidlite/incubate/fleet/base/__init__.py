"""Base of Fleet: the role of a process in its job, and the actions of a fleet."""
