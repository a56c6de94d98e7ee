"""Communicators: they exchange gradients and parameters with servers beside an asynchronous trainer."""
