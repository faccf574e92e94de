"""The names of the attributes that a class declares."""

from antecede.core.support.attributes import listed_attributes


class Several:
    __slots__ = ("__hidden", "__weakref__", "shown")


class One:
    __slots__ = "only"


class _Underscored:
    __slots__ = ("__hidden",)


class Unlisted:
    pass


def test_names_of_the_slots_are_returned_as_getattr_takes_them() -> None:
    names = listed_attributes(Several)
    assert names is not None
    assert sorted(names) == ["_Several__hidden", "__weakref__", "shown"]
    assert listed_attributes(_Underscored) == ("_Underscored__hidden",)
    assert listed_attributes(One) == ("only",)


def test_a_class_without_a_list_has_none() -> None:
    assert listed_attributes(Unlisted) is None
