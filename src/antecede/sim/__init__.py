"""The simulator: real protocol classes in virtual time."""
