"""The description of a run in ``run.json``."""

import json
from dataclasses import dataclass, field, fields

from antecede.errors import TraceError

__all__ = ["RunInfo"]

_TYPES = {
    "run": str, "complete": bool, "parameters": dict, "names": dict, "missing": list,
}  # fmt: skip
_TYPES_IF_ANY = {"protocol": str, "seed": int, "processes": int, "command": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The contents of ``run.json``: everything about a run that is not an event."""

    run: str
    """The name of the run, as in the column ``run``."""
    protocol: str | None = None
    """The name of the protocol in the registry."""
    seed: int | None = None
    """The seed of the random numbers."""
    complete: bool = False
    """The run continued until nothing was left to do: undelivered messages are lost."""
    processes: int | None = None
    """The number of processes."""
    command: str | None = None
    """The command that replays the run."""
    parameters: dict[str, object] = field(default_factory=dict)
    """The configuration of the run."""
    names: dict[int, str] = field(default_factory=dict)
    """The names of processes that have one."""
    missing: list[str] = field(default_factory=list)
    """The known gaps of the trace, one short sentence each."""
    more: dict[str, object] = field(default_factory=dict)
    """All other keys of the file."""

    def to_json(self) -> str:
        """Return the text of ``run.json``."""
        known = {key.name: getattr(self, key.name) for key in fields(self)}
        known["names"] = {str(process): name for process, name in self.names.items()}
        return json.dumps({**known.pop("more"), **known}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "RunInfo":
        """Parse the text of ``run.json``; only the key ``run`` is required.

        Raise TraceError if it is not a JSON object, or a value has the wrong type.
        """
        try:
            found = json.loads(text)
        except ValueError as error:
            raise TraceError(f"not JSON: {error}") from error
        if not isinstance(found, dict) or "run" not in found:
            raise TraceError("not a JSON object with the key 'run'")
        for key, value in found.items():
            wrong = key in _TYPES and not isinstance(value, _TYPES[key])
            wanted = _TYPES_IF_ANY.get(key)
            if wanted is not None and value is not None:
                wrong = not isinstance(value, wanted) or isinstance(value, bool)
            if wrong:
                raise TraceError(f"the value of {key!r} has the wrong type: {value!r}")
        names = found.pop("names", {})
        try:
            names = {int(process): str(name) for process, name in names.items()}
        except ValueError as error:
            raise TraceError(
                f"'names' has a key that is not the id of a process: {error}"
            ) from error
        known = {key.name for key in fields(cls)} - {"more"}
        more = {key: found.pop(key) for key in list(found) if key not in known}
        return cls(**found, names=names, more=more)
