"""The node for programs with threads: the API of :class:`antecede.Node` without ``await``.

Nothing else is different: a :class:`Node` of this package owns an asynchronous node, which
runs on an event loop in a thread of its own. All nodes of a process share that thread.
"""

from antecede.sync.node import Node
from antecede.sync.room import Room

__all__ = ["Node", "Room"]
