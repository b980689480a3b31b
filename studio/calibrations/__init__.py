"""Calibrations: how often a model or an adapter solves tasks, and what that promises for a run."""
