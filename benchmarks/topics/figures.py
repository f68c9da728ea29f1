# SPDX-License-Identifier: MIT
"""Shared by the plots of all topics."""
import sys


def pyplot():
    """matplotlib.pyplot for files; None, with a message on stderr, if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: nothing is drawn", file=sys.stderr)
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot
    return matplotlib.pyplot


def save(figure, plots, title, path, ncols=4, dpi=100, **of_title):
    """Writes the figure with a title above and, below, one legend for all its plots."""
    handles = {}
    for plot in plots:
        for handle, label in zip(*plot.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.suptitle(title, **of_title)
    # The legend is below the figure; the tight bounding box includes it. "outside" needs matplotlib 3.7.
    figure.legend(handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, 0), ncols=ncols,
                  fontsize=9)
    figure.savefig(path, dpi=dpi, bbox_inches="tight")
    pyplot().close(figure)
    print(f"drawn: {path}", file=sys.stderr)
