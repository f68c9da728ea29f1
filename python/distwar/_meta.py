# SPDX-License-Identifier: MIT
"""The dictionary that rasterization() returns."""


class Meta(dict):
    """A dictionary. The entries `late` are made by the methods of `source` of these names, when somebody first asks for
    them: some take a kernel."""
    __slots__ = ("_source", "_late", "__weakref__")

    def __init__(self, entries, source, late):
        super().__init__(entries)
        self._source, self._late = source, late

    def __missing__(self, name):
        if name not in self._late:
            raise KeyError(name)
        self._late = self._late - {name}
        value = self[name] = getattr(self._source, name)()
        return value

    def __contains__(self, name):
        return name in self._late or super().__contains__(name)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def sum_in_backward(self, density):
        """As _Pairs has it. False too if somebody has the means already."""
        return "means2d" in self._late and self._source.sum_in_backward(density)

    def whole(self):
        for name in tuple(self._late):
            self[name]
        return self


def _of_whole(name):
    return lambda self, *arguments: getattr(dict, name)(self.whole(), *arguments)


for _name in ("__iter__", "__len__", "__eq__", "__ne__", "__or__", "__ror__", "__repr__", "__reduce_ex__", "keys",
              "values", "items", "copy", "pop", "popitem", "setdefault"):
    if hasattr(dict, _name):
        setattr(Meta, _name, _of_whole(_name))
