# SPDX-License-Identifier: MIT
"""What the scripts that draw share."""
import sys


def pyplot():
    """matplotlib's, for files; None, said on stderr, where there is none."""
    try:
        import matplotlib
    except ImportError:
        print("python3 has no matplotlib: nothing is drawn", file=sys.stderr)
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot
    return matplotlib.pyplot


def save(figure, plots, title, path, ncols=4, dpi=100, **of_title):
    """Writes the figure with a title above and one legend below for all its plots, each label once."""
    handles = {}
    for plot in plots:
        for handle, label in zip(*plot.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.suptitle(title, **of_title)
    # Below the figure's edge, which the tight box then takes in: "outside" wants a matplotlib of 3.7.
    figure.legend(handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, 0), ncols=ncols,
                  fontsize=9)
    figure.savefig(path, dpi=dpi, bbox_inches="tight")
    pyplot().close(figure)
    print(f"drawn: {path}", file=sys.stderr)
