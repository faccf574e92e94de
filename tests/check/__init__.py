"""The model checker: what it is made of, what it finds, and what it proves."""
