# SPDX-License-Identifier: MIT
"""Markdown tables and the format of their cells."""


def table(header, rows):
    """The lines of a table. None makes an empty cell."""
    def line(cells):
        return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"
    return [line(header), "|" + "---|" * len(header), *map(line, rows)]


def ms(value):
    """Three significant digits or more; empty for None."""
    return "" if value is None else f"{value:.3f}" if value >= 0.1 else f"{value:.4f}"
