"""Random scenarios of whole nodes in a simulation, judged: ``python -m campaign``."""
