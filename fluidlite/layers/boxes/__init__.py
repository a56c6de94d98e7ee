"""Layers of detectors: priors, boxes and their codes, matching, suppression, losses, heads."""
