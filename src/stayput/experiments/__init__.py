"""Runs from start to end: spec, data, task, algorithm and engine brought together, round after round."""
