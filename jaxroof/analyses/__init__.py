"""Questions that need to know an estimator: settings in, a Dataset out, nothing printed."""
