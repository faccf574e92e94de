"""Make the report from the directories of studies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from antecede.errors import ConfigError
from antecede.report.charts.figures import make_figures
from antecede.report.claims.claim import Claim, Finding
from antecede.report.claims.papers import examine_claims
from antecede.report.export import figure_svg, write_claims, write_svg, write_tables
from antecede.report.page import Content, render_page
from antecede.report.schedule import draw_schedule
from antecede.report.tables import read_tables

__all__ = ["ReportFiles", "write_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """What was written."""

    page: Path
    figures: tuple[Path, ...]
    tables: tuple[Path, ...]
    findings: tuple[tuple[Claim, Finding], ...]
    """Every claim, and what became of it."""


def write_report(directories: Sequence[Path], out: Path) -> ReportFiles:
    """Write the page to ``out``, and its figures and tables into a folder beside it.

    The folder is called after the page: ``report_files`` for ``report.html``.

    Args:
        directories: Of studies that ``antecede study run`` has finished.
        out: The file of the page; open it in any browser.

    Raises:
        ConfigError: There are no tables, or the files cannot be written.
    """
    tables = read_tables(directories)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}") from error
    figures = make_figures(tables)
    drawings = draw_schedule()
    findings = examine_claims(tables)
    svgs = {figure.id: figure_svg(figure) for figure in figures}
    content = Content(
        tables=tables,
        figures=figures,
        drawings=drawings,
        findings=findings,
        beside=f"{out.stem}_files",
    )
    page = render_page(content)
    drawn = {f"schedule-{drawing.protocol}": drawing.svg for drawing in drawings}
    beside = out.parent / f"{out.stem}_files"
    try:
        # Of an earlier report nothing must stay that this one has no more.
        for old in (*beside.glob("figures/*.svg"), *beside.glob("tables/*.csv")):
            old.unlink()
        written = write_svg({**svgs, **drawn}, beside / "figures")
        listed = write_tables(tables, beside / "tables")
        listed.append(write_claims(findings, beside / "tables"))
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename}: {error.strerror}") from error
    return ReportFiles(
        page=out,
        figures=tuple(written),
        tables=tuple(listed),
        findings=tuple(findings),
    )
