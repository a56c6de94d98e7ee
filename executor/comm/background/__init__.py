"""What exchanges gradients and parameters with servers beside a training that does not wait."""
