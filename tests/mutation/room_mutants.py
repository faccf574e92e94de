"""Mutants of links, of the introduction of strangers, and of the snapshots of rooms."""

from tests.mutation.mutant import Mutant

__all__ = ["ROOM_MUTANTS"]

ROOM_MUTANTS = (
    Mutant(
        "a member may speak for another one in a room",
        "engine/carrier",
        "or datagram[SENDER_START:SENDER_END] != sender\n",
        "",
    ),
    Mutant(
        "a part that is cut off is taken",
        "engine/carrier",
        "len(datagram) < length",
        "False",
    ),
    Mutant(
        "parts are dropped while a handshake is under way",
        "engine/carrier",
        "                self._waiting[session.name] = (session, parts)\n",
        "",
    ),
    Mutant(
        "messages of a link are delivered",
        "engine/process_driver",
        "if session.state is REMOVED or (session.is_link and start < len(body)):",
        "if session.state is REMOVED:",
    ),
    Mutant(
        "a message outside of rooms goes to a link",
        "engine/sender",
        "            or session.is_link\n",
        "",
    ),
    Mutant(
        "the address of a link in use follows what others say",
        "engine/links",
        "if not is_met or session.is_silent:",
        "if True:",
    ),
    Mutant(
        "the key of a JOIN does not depend on its salt",
        "engine/crypto",
        "return self._derive(STRANGER_CONTEXT, salt)",
        "return self._derive(STRANGER_CONTEXT, None)",
    ),
    Mutant(
        "an answer that is larger than the JOIN is not shortened",
        "net/rooms/introducer",
        "if len(datagram) > size_max:",
        "if False:",
    ),
    Mutant(
        "a name is taken by the last one who asks",
        "net/rooms/introducer",
        "if links.has_answered(name, asked_at):",
        "if False:",
    ),
    Mutant(
        "a snapshot is taken before the application has received everything",
        "net/rooms/snapshots",
        "if is_quiet and request.position <= taken_count:",
        "if True:",
    ),
    Mutant(
        "a snapshot is taken while a send is under way",
        "net/rooms/snapshots",
        "is_quiet = not core.sends_under_way and",
        "is_quiet =",
    ),
    Mutant(
        "the cut contains what waits in the inbox",
        "net/rooms/snapshots",
        "            latest[key] = message.number - 1",
        "            latest[key] = message.number",
    ),
    Mutant(
        "the cut does not contain the messages of the sponsor",
        "net/rooms/snapshots",
        "        latest[core.node, engine.history] = core.last_number\n",
        "",
    ),
    Mutant(
        "a newcomer is confirmed while a message in fragments is being sent",
        "net/rooms/room_peers",
        "if not self._additions or self._core.sending.is_in_fragments:",
        "if not self._additions:",
    ),
    Mutant(
        "a member that answers is removed if its window is full",
        "net/rooms/room_core",
        "if engine.sessions[name].is_silent and not",
        "if not",
    ),
    Mutant(
        "the cut has the number of an unordered message",
        "net/rooms/snapshots",
        "if message.ordered:",
        "if True:",
    ),
    Mutant(
        "a member that was removed goes on with its history",
        "net/rooms/live_membership",
        "        await self._core.restart()\n",
        "",
    ),
    Mutant(
        "a node that has not reached its seeds lets others found the room",
        "net/rooms/control_room",
        "if room in self._held:",
        "if False:",
    ),
    Mutant(
        "a restarted node is not found at another address",
        "net/rooms/link_hub",
        "if is_vacant and session.is_link and session.address != address:",
        "if False:",
    ),
    Mutant(
        "a link follows whoever repeats a JOIN",
        "net/rooms/introducer",
        "        is_vacant = False\n",
        "        is_vacant = True\n",
    ),
    Mutant(
        "a member is ready for a newcomer that will give up its messages",
        "engine/links",
        "            and session.epoch_known == session.epoch_out\n",
        "",
    ),
    Mutant(
        "a node looks at the addresses in its journal only",
        "net/rooms/room_finder",
        "        self.start(await more)\n",
        "        more.close()\n",
    ),
    Mutant(
        "a live member that nothing was sent to counts as silent",
        "net/rooms/silence_probe",
        "                    engine.links.ask(name, runtime.now_s())\n",
        "                    pass\n",
    ),
    Mutant(
        "an accept that raises stops the node",
        "net/rooms/introducer",
        "        except Exception as error:\n            logger.exception(",
        "        except KeyError as error:\n            logger.exception(",
    ),
    Mutant(
        "an agree that raises stops the node",
        "net/rooms/options",
        "        except Exception:\n",
        "        except KeyError:\n",
    ),
)
