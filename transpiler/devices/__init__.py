"""Program -> the programs of several devices of one process."""
