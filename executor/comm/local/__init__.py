"""A whole job in one process: its roles are threads."""
