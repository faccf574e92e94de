"""``antecede top``: the state of a running group, read from the metrics of its nodes."""
