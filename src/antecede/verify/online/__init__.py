"""Verify a run while its events arrive, with state that is bounded by time.

:class:`antecede.verify.online.verifier.OnlineVerifier` takes events in any order, and
returns each violation once, as soon as it is known. Its drivers, the command ``antecede
verify --follow`` and ``antecede.spark.verify_stream``, bring the events and the time.
"""
