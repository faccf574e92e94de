"""Advice on recorded traffic: what would it cost to deliver it in causal order?

:mod:`antecede.advise.traffic` turns a trace into a workload and a network,
:mod:`antecede.advise.advise` replays it under every protocol that can serve it, on Spark,
:mod:`antecede.advise.recommend` picks one, and :mod:`antecede.advise.table` prints it all.

This package needs the extras ``antecede[spark,trace]``.
"""
