"""Program -> Programs, one for each role of a cluster."""
