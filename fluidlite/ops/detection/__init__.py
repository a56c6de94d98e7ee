"""Ops of detectors: priors and anchors, coded boxes, matching, suppression, their losses."""
