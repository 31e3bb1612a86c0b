"""CTC and the recurrence: Python faces of the operations where the time goes."""
