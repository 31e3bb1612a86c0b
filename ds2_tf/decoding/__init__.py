"""From log-probabilities to text."""
