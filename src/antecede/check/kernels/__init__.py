"""Compiled loops of the model checker; they need the extra ``antecede[trace]``."""
