"""The style sheet of space-time diagrams, for light and dark backgrounds."""

__all__ = ["css"]

SHAPES = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.name{font-size:13px;font-weight:600}
.label{font-size:11px;text-anchor:middle}
.label{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}
.caption{font-size:12px;font-weight:600}
.note{font-size:11px}
.lifeline{stroke-width:1.5}
.grid{stroke-width:1}
.arrow,.cross,.tick{fill:none;stroke-width:1.4}
.head{stroke:none}
.hit{stroke:transparent;stroke-width:9;fill:none}
.retransmission{stroke-width:1;stroke-dasharray:5 3}
.in-flight{stroke-dasharray:2 2}
.control .arrow{stroke-width:1;stroke-dasharray:1 3}
.wait.open{stroke-width:1;stroke-dasharray:3 2;fill-opacity:.45}
.dot{stroke-width:1.5}
.dim{opacity:.5}
.around .arrow,.violation .arrow,.violation .cross{stroke-width:2.4}
.label.around,.label.violation{font-weight:700}
.chain{stroke-width:3.5;stroke-linecap:round}
.broken{stroke-dasharray:1 6}
.message:hover .arrow{stroke-width:3}
"""
COLOURS = (
    (".ground", "fill", "#ffffff", "#14171c"),
    ("text", "fill", "#1c2128", "#e8ebf0"),
    (".label", "stroke", "#ffffff", "#14171c"),
    (".note", "fill", "#59636e", "#a3acb8"),
    (".lifeline", "stroke", "#98a2b0", "#626c7a"),
    (".grid", "stroke", "#eceff3", "#22272f"),
    (".arrow,.cross,.tick", "stroke", "#414b59", "#bcc5d1"),
    (".head,.dot", "fill", "#414b59", "#bcc5d1"),
    (".dot", "stroke", "#ffffff", "#14171c"),
    (".control .arrow,.control .cross", "stroke", "#7b8694", "#8b95a3"),
    (".control .head", "fill", "#7b8694", "#8b95a3"),
    (".source", "fill", "#e39a1a", "#e5a83b"),
    (".source.open", "stroke", "#e39a1a", "#e5a83b"),
    (".target", "fill", "#3f8fdd", "#5aa5f0"),
    (".target.open", "stroke", "#3f8fdd", "#5aa5f0"),
    (".around .arrow,.around .cross,.around .tick", "stroke", "#7a3fd1", "#c39bff"),
    (".around .head,.around .dot,.label.around", "fill", "#7a3fd1", "#c39bff"),
    (
        ".violation .arrow,.violation .cross,.violation .tick,.chain",
        "stroke",
        "#cf222e",
        "#ff6b6b",
    ),
    (
        ".violation .head,.violation .dot,.label.violation,.caption",
        "fill",
        "#cf222e",
        "#ff6b6b",
    ),
)
"""Selectors, property, colour on a light background, colour on a dark one."""


def css() -> str:
    """Return the style sheet; its rules apply to diagrams only."""
    light = "".join(
        f"{selectors}{{{name}:{colour}}}\n" for selectors, name, colour, _ in COLOURS
    )
    dark = "".join(
        f"{selectors}{{{name}:{colour}}}\n" for selectors, name, _, colour in COLOURS
    )
    return (
        f"\n{_scope(SHAPES + light)}"
        f"@media (prefers-color-scheme:dark){{\n{_scope(dark)}}}\n"
    )


def _scope(css: str) -> str:
    """Restrict rules to diagrams: a page that embeds a drawing applies its style sheet."""
    rules = []
    for rule in css.strip().splitlines():
        selectors, _, rest = rule.partition("{")
        scoped = ",".join(f".antecede-diagram {name}" for name in selectors.split(","))
        rules.append(f"{scoped}{{{rest}\n")
    return "".join(rules)
