"""Parts that all modes are made of: roles, endpoints, edits of programs."""
