"""The directive ``command-reference``: the help text of every command, from the parser."""

import argparse
from collections.abc import Iterator

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from antecede.cli.main import build_parser


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and the parsers of its commands, depth first."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


class CommandReference(Directive):
    """Inserts one section with the help text per command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        sections: list[nodes.Node] = []
        for parser in parsers(build_parser()):
            parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=92)
            name = nodes.make_id(parser.prog)
            section = nodes.section(ids=[name])
            section += nodes.title(text=parser.prog)
            section += nodes.literal_block(text=parser.format_help(), language="text")
            sections.append(section)
        return sections


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive with Sphinx."""
    app.add_directive("command-reference", CommandReference)
    return {"parallel_read_safe": True}
