"""The protocols, one module or package each; see :mod:`antecede.core.registry`."""
