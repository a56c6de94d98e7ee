"""Program -> plan -> source: ops are lowered to steps, and steps become the text of a Python function."""
