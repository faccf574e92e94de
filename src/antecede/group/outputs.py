"""The list of effects that the parts of a membership append to."""

from antecede.group.codec import encode_control
from antecede.group.effects import Broadcast, Effect, SendControl, SendInRoom
from antecede.group.frames import CONTROL, ControlFrame

__all__ = ["Outputs"]

_PREFIX = bytes((CONTROL,))


class Outputs:
    """The effects that the driver has not taken yet."""

    __slots__ = ("_effects",)

    def __init__(self) -> None:
        self._effects: list[Effect] = []

    def append(self, effect: Effect) -> None:
        """Append an effect."""
        self._effects.append(effect)

    def control(self, target: str, frame: ControlFrame) -> None:
        """Send a control message to one node, outside the room."""
        self._effects.append(SendControl(target, encode_control(frame)))

    def in_room(self, target: str, frame: ControlFrame) -> None:
        """Send a control message to one member, in the room."""
        self._effects.append(SendInRoom(target, _PREFIX + encode_control(frame)))

    def broadcast(self, frame: ControlFrame) -> None:
        """Send a control message to all peers, in the room."""
        self._effects.append(Broadcast(_PREFIX + encode_control(frame)))

    def take(self) -> list[Effect]:
        """Remove and return all effects, in order."""
        effects = self._effects
        self._effects = []
        return effects
