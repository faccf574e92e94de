"""Which attributes the objects of a class have, whether it is compiled or not."""

__all__ = ["listed_attributes"]


def listed_attributes(cls: type) -> tuple[str, ...] | None:
    """Return the names that a class itself lists, as seen from outside it.

    Compiled classes list them elsewhere than others; None if a class has no such list.
    """
    for where in ("__mypyc_attrs__", "__slots__"):
        if where in cls.__dict__:
            found = cls.__dict__[where]
            names = (found,) if isinstance(found, str) else tuple(found)
            return tuple([_mangled(cls, name) for name in names])
    return None


def _mangled(cls: type, name: str) -> str:
    """Return the name that a private attribute has outside its class."""
    if name.startswith("__") and not name.endswith("__"):
        return f"_{cls.__name__.lstrip('_')}{name}"
    return name
