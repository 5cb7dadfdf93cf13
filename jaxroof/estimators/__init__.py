"""Answers: each estimator maps one record of inputs to one record of results."""
