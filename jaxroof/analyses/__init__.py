"""Analyses that depend on an estimator: settings in, a Dataset out, nothing printed."""
