# SPDX-License-Identifier: MIT
"""What rasterization() returns as `meta`."""
from collections.abc import MutableMapping


class Meta(MutableMapping):
    """A dictionary, but for its type. The entries `late` are made by the methods of `source` of these names, when somebody first
    asks for them: some take a kernel."""
    __slots__ = ("_entries", "_source", "_late", "__weakref__")

    def __init__(self, entries, source, late):
        self._entries, self._source, self._late = dict(entries), source, late

    def __getitem__(self, name):
        if name in self._late:
            self[name] = getattr(self._source, name)()
        return self._entries[name]

    def __setitem__(self, name, value):
        self._late = self._late - {name}
        self._entries[name] = value

    def __delitem__(self, name):
        self._late = self._late - {name}
        self._entries.pop(name, None)

    def __contains__(self, name):
        return name in self._late or name in self._entries

    def __iter__(self):
        return iter((*self._entries, *self._late))

    def __len__(self):
        return len(self._entries) + len(self._late)

    def copy(self):
        return dict(self)

    def sum_in_backward(self, density):
        """As _Pairs has it. False too if somebody has the means already."""
        return "means2d" in self._late and self._source.sum_in_backward(density)
