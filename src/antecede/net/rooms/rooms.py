"""The rooms of one node."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from antecede.core.process import NEVER
from antecede.engine.events import NodeEvent
from antecede.engine.message import Message
from antecede.errors import ConfigError, LocalError
from antecede.net.config import NAME_BYTES_MAX, NodeConfig
from antecede.net.payloads import Encode
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.rooms.membership import FixedMembership
from antecede.net.rooms.room import Room
from antecede.net.rooms.room_core import RoomCore
from antecede.net.rooms.room_node import make_room_runtime, room_limits
from antecede.net.runtime import NodeRuntime
from antecede.net.udp import Address, parse_address

__all__ = ["Rooms"]
