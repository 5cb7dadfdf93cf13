"""Training of today's models: what they consist of and what a token costs."""
