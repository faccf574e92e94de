"""The attributes of a class, compiled or interpreted."""

__all__ = ["listed_attributes"]


def listed_attributes(cls: type) -> tuple[str, ...] | None:
    """Return the names of the attributes that a class declares, or None without a list.

    Private names are mangled. Compiled classes store the list under another name.
    """
    for listing in ("__mypyc_attrs__", "__slots__"):
        if listing in cls.__dict__:
            found = cls.__dict__[listing]
            names = (found,) if isinstance(found, str) else tuple(found)
            return tuple([_mangled(cls, name) for name in names])
    return None


def _mangled(cls: type, name: str) -> str:
    if name.startswith("__") and not name.endswith("__"):
        return f"_{cls.__name__.lstrip('_')}{name}"
    return name
