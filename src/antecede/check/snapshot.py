"""Snapshots: the state of an object as nested tuples, compiled or not.

Two snapshots are equal exactly if every attribute of every object that can be reached is
equal.
"""

from enum import Enum
from typing import Generic

from antecede.core.support.attributes import listed_attributes

__all__ = ["snapshot"]

DICTIONARY = "__dict__"
"""The attributes in the dictionary of an object. Compiled classes may list a dictionary
that they do not have."""
OWN_BYTES_MAX = 16
"""A class written in Python adds a dictionary and a weak reference to its base; a class
that adds more has state that Python cannot see."""

_PLAIN = (bool, int, float, str, bytes, Enum)
_names: dict[type, tuple[str, ...]] = {}


def snapshot(
    thing: object,
    without: tuple[type, ...] = (),
    ordered: bool = True,
    _above: tuple[int, ...] = (),
) -> object:
    """Return a value that changes exactly if the state of an object changes.

    Objects of the types in ``without`` are ignored, and the order of dictionaries unless
    ``ordered``. Raise TypeError for a class whose state cannot be seen.
    """
    if thing is None or isinstance(thing, _PLAIN):
        return thing
    if id(thing) in _above:
        return f"above: {len(_above) - _above.index(id(thing))}"
    if isinstance(thing, without):
        return None
    above = (*_above, id(thing))
    if isinstance(thing, dict):
        items = [
            (
                snapshot(key, without, ordered, above),
                snapshot(value, without, ordered, above),
            )
            for key, value in thing.items()
        ]
        return tuple(items if ordered else sorted(items, key=repr))
    if isinstance(thing, set | frozenset):
        return tuple(
            sorted([snapshot(each, without, ordered, above) for each in thing], key=repr)
        )
    if isinstance(thing, bytearray):
        return bytes(thing)
    if isinstance(thing, list | tuple):
        return tuple([snapshot(element, without, ordered, above) for element in thing])
    kind = type(thing)
    names = _names.get(kind)
    if names is None:
        found = {name for cls in kind.__mro__ for name in _attributes(cls)}
        names = _names[kind] = tuple(sorted(found))
    # An attribute may not be set yet.
    fields = [
        snapshot(getattr(thing, name, None), without, ordered, above)
        for name in names
        if name != DICTIONARY
    ]
    if DICTIONARY in names:
        fields += [
            (name, snapshot(value, without, ordered, above))
            for name, value in sorted(getattr(thing, DICTIONARY, {}).items())
        ]
    return (kind.__name__, tuple(fields))


def _attributes(cls: type) -> tuple[str, ...]:
    if cls is object or cls is Generic:  # Since Python 3.12, Generic lists no slots.
        return ()
    listed = listed_attributes(cls)
    if listed is not None:
        return listed
    if cls.__basicsize__ > OWN_BYTES_MAX + _size_of_base(cls) or cls.__dictoffset__ == 0:
        raise TypeError(f"the state of a {cls} cannot be seen")
    return (DICTIONARY,)


def _size_of_base(cls: type) -> int:
    return cls.__base__.__basicsize__ if cls.__base__ is not None else 0
