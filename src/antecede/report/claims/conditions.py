"""On which runs a figure or a claim looks: conditions on what they were run with."""

from antecede.report.tables import Setting, SummaryRow

__all__ = ["calm", "pressed", "reliable", "unhurried"]


def reliable(row: SummaryRow, setting: Setting) -> bool:
    """Tell whether the network was declared reliable, and has no link layer."""
    return bool(setting["reliable"])


def calm(row: SummaryRow, setting: Setting) -> bool:
    """Tell whether nothing is lost, so that repeats do not blur what is measured."""
    return not (setting["loss"] or setting["duplicate"] or setting["reorder"])


def unhurried(row: SummaryRow, setting: Setting) -> bool:
    """Tell whether bandwidth plays no part either, which large messages would use up."""
    return calm(row, setting) and setting["bandwidth"] is None


def pressed(row: SummaryRow, setting: Setting) -> bool:
    """Tell whether messages are sent faster than acks come back."""
    delay, gap = setting["delay_s"], setting["gap_s"]
    return unhurried(row, setting) and bool(delay and gap) and 2 * delay >= gap
