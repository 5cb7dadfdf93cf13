"""Derivatives, elasticities, and the envelope of all plans."""
