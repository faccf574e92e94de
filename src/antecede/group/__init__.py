"""Groups: how a node joins a room, catches up, and leaves. Pure, without I/O or clock."""
