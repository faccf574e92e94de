"""The whole state of an object as nested tuples, compiled or not.

Two snapshots are equal exactly if the states are: every attribute of every object that can
be reached counts.
"""

from enum import Enum

__all__ = ["snapshot"]

_PLAIN = (bool, int, float, str, bytes, Enum)
_names: dict[type, tuple[str, ...]] = {}


def snapshot(
    thing: object,
    without: tuple[type, ...] = (),
    ordered: bool = True,
    _above: tuple[int, ...] = (),
) -> object:
    """Return a value that is equal before and after exactly if no state has changed.

    Objects of the types in ``without`` do not count, nor does the order of dictionaries
    unless it is ``ordered``.
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
    if isinstance(thing, list | tuple):
        return tuple([snapshot(element, without, ordered, above) for element in thing])
    kind = type(thing)
    names = _names.get(kind)
    if names is None:
        found = {name for cls in kind.__mro__ for name in _attributes(cls)}
        names = _names[kind] = tuple(sorted(found))
    # What is not there yet has no value.
    fields = [
        snapshot(getattr(thing, name, None), without, ordered, above) for name in names
    ]
    return (kind.__name__, tuple(fields))


def _attributes(cls: type) -> tuple[str, ...]:
    for where in ("__mypyc_attrs__", "__slots__", "__dataclass_fields__"):
        if where in cls.__dict__:
            return tuple(name for name in cls.__dict__[where] if name != "__dict__")
    if cls.__module__ != "builtins" and cls is not object:
        raise TypeError(f"the state of a {cls} cannot be seen")
    return ()
