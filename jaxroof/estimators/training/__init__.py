"""Training of today's models: what they consist of, what a token costs, what a stage keeps."""
