"""Conditions on the runs that a figure or a claim uses."""

from antecede.report.tables import Parameters, SummaryRow

__all__ = ["bandwidth_unlimited", "lossless", "reliable", "saturated"]


def reliable(row: SummaryRow, parameters: Parameters) -> bool:
    """Return whether the network is declared reliable, so that there is no link layer."""
    return bool(parameters["reliable"])


def lossless(row: SummaryRow, parameters: Parameters) -> bool:
    """Return whether the network loses, duplicates and reorders nothing."""
    return not (parameters["loss"] or parameters["duplicate"] or parameters["reorder"])


def bandwidth_unlimited(row: SummaryRow, parameters: Parameters) -> bool:
    """Return whether the network is lossless and its bandwidth is unlimited."""
    return lossless(row, parameters) and parameters["bandwidth"] is None


def saturated(row: SummaryRow, parameters: Parameters) -> bool:
    """Return whether processes send faster than acks return, on an unlimited network."""
    delay, gap = parameters["delay_s"], parameters["gap_s"]
    if not delay or not gap:
        return False
    return bandwidth_unlimited(row, parameters) and bool(2 * delay >= gap)
