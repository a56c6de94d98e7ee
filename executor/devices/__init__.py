"""Running one program on several devices of one process."""
