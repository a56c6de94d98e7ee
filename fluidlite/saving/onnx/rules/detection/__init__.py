"""Rules for detectors: boxes, their suppression, proposals of regions."""
