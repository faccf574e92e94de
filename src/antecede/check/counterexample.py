"""A counterexample as a story: numbered steps, a file to replay, a run to draw.

The file holds the steps by what happens, with frames as their bytes, so that it can be
replayed on the protocol as it is now (:func:`antecede.testing.replay`), in the cluster of
:mod:`antecede.testing`, and judged by the oracle.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from antecede.check.checker import Checked
from antecede.check.removal import ABANDON, RENEW, STOP, WAIVE
from antecede.check.state_space import ARRIVE, DUPLICATE, FIRE, LOSE, SEND, Action
from antecede.check.transitions import Model, members
from antecede.core.codec import encode
from antecede.errors import ConfigError

__all__ = ["CHANGES", "Story", "load_story", "tell"]

WORDS = {
    SEND: "send",
    ARRIVE: "arrive",
    LOSE: "lose",
    DUPLICATE: "duplicate",
    FIRE: "fire",
    ABANDON: "abandon",
    RENEW: "renew",
    STOP: "stop",
    WAIVE: "waive",
}


CHANGES = {
    "abandon": "process {who} lets go of process {peer}",
    "renew": "process {who} learns that process {peer} begins anew",
    "stop": "process {who} is said to have stopped",
    "waive": "process {who} waives the permits of process {peer}",
}


@dataclass(frozen=True, kw_only=True)
class Story:
    """A schedule, and the property that it breaks."""

    protocol: str
    processes: int
    reliable: bool
    """Whether the processes run without the link layer."""
    property: str
    steps: tuple[dict[str, object], ...]
    """What happens, in order; see :func:`tell`."""
    lease: bool = True
    """What was given up does not come late."""
    mistaken: bool = False
    """Who is said to have stopped goes on."""

    def to_json(self) -> str:
        """Write it down for :func:`load_story`."""
        return json.dumps(
            {
                "protocol": self.protocol,
                "processes": self.processes,
                "reliable": self.reliable,
                "property": self.property,
                "lease": self.lease,
                "mistaken": self.mistaken,
                "steps": self.steps,
            },
            indent=2,
        )

    def lines(self) -> list[str]:
        """Tell it in numbered lines."""
        return [f"{i:3}. {_line(step)}" for i, step in enumerate(self.steps, 1)]


def tell(checked: Checked) -> Story:
    """Make the story of a violation."""
    assert checked.violation is not None
    bound = checked.bound
    schedule = checked.violation.schedule
    return Story(
        protocol=bound.protocol,
        processes=bound.processes,
        reliable=not (bound.losses or bound.duplicates),
        property=checked.violation.property,
        lease=bound.lease,
        mistaken=bound.mistaken,
        steps=tuple(_step(checked.model, action) for action in schedule),
    )


def _step(model: Model, action: Action) -> dict[str, object]:
    step: dict[str, object] = {"do": WORDS[action.kind], "process": action.place}
    if action.kind == SEND:
        step["targets"] = members(action.what)
    elif action.kind in (ABANDON, RENEW, WAIVE):
        step["peer"] = action.what
    elif action.kind not in (FIRE, STOP):
        packet = model.packets[action.what]
        step["source"] = packet.source
        step["frame"] = encode([packet.frame]).hex()
        step["shown"] = str(packet.frame)
    return step


def _line(step: dict[str, object]) -> str:
    who, what = step["process"], step["do"]
    if what == "send":
        return f"process {who} sends to {step['targets']}"
    if what == "fire":
        return f"a timer of process {who} fires"
    if what in CHANGES:
        return CHANGES[str(what)].format(who=who, peer=step.get("peer"))
    deed = {"arrive": "arrives", "lose": "is lost", "duplicate": "is duplicated"}
    return f"{step['shown']} from {step['source']} to {who} {deed[str(what)]}"


def load_story(path: Path) -> Story:
    """Read a story from its file, or raise ConfigError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Story(
            protocol=str(found["protocol"]),
            processes=int(found["processes"]),
            reliable=bool(found["reliable"]),
            property=str(found["property"]),
            steps=tuple([dict(step) for step in found["steps"]]),
            lease=bool(found.get("lease", True)),
            mistaken=bool(found.get("mistaken", False)),
        )
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} holds no story of a check: {error!r}") from error
