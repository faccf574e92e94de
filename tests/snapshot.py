"""The whole state of an object as nested tuples, compiled or not."""

from enum import Enum


def snapshot(thing: object, _above: tuple[int, ...] = ()) -> object:
    """Return a value that is equal before and after exactly if no state has changed."""
    if thing is None or isinstance(thing, bool | int | float | str | bytes | Enum):
        return thing
    if id(thing) in _above:
        return f"above: {_above.index(id(thing))}"
    above = (*_above, id(thing))
    if isinstance(thing, dict):
        return tuple((snapshot(k, above), snapshot(v, above)) for k, v in thing.items())
    if isinstance(thing, list | tuple):
        return tuple(snapshot(element, above) for element in thing)
    names = {name for cls in type(thing).__mro__ for name in _attributes(cls)}
    assert names, f"nothing to see of a {type(thing)}"
    fields = tuple(  # What is not there yet has no value.
        (name, snapshot(getattr(thing, name, None), above)) for name in sorted(names)
    )
    return (type(thing).__name__, fields)


def _attributes(cls: type) -> tuple[str, ...]:
    for where in ("__mypyc_attrs__", "__slots__", "__dataclass_fields__"):
        if where in cls.__dict__:
            return tuple(name for name in cls.__dict__[where] if name != "__dict__")
    return ()
