"""Advice on recorded traffic: the cost of delivering it in causal order.

:mod:`antecede.advise.traffic` extracts a workload from a trace,
:mod:`antecede.advise.network` the delays, :mod:`antecede.advise.advise` replays the
workload under every protocol that supports it, on Spark, :mod:`antecede.advise.recommend`
recommends one, and :mod:`antecede.advise.table` formats the result.

This package needs the extras ``antecede[spark,trace]``.
"""
