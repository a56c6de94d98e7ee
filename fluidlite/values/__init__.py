"""Values while a program runs: tensors with levels of detail, scopes that hold them, their bytes in files."""
