"""A web service of several processes, which shows no answer before its question.

Each process has a node and a Flask server, whose threads share the node. A post is sent to
all other processes; every process shows the posts in causal order.

    python examples/web_service.py ann 8001 127.0.0.1:9001 bob=127.0.0.1:9002
    python examples/web_service.py bob 8002 127.0.0.1:9002 ann=127.0.0.1:9001
    curl --data 'who has the key?' http://127.0.0.1:8001/posts
    curl http://127.0.0.1:8002/posts

Flask is not a part of antecede: ``pip install flask``.
"""

import json
import sys
import threading

from flask import Flask, Response, jsonify, request

from antecede import sync


class Board:
    """The posts that a process shows.

    A post of this process is added before it is sent, so that no answer precedes it.
    """

    def __init__(self, node: sync.Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._posts: list[dict[str, str]] = []

    def receive_all(self) -> None:
        """Show the posts of the other processes, until the node is closed."""
        for message in self._node:
            with self._lock:
                self._posts.append(message.value)

    def post(self, text: str) -> None:
        """Show a post here, and send it to the other processes."""
        post = {"by": self._node.name, "text": text}
        with self._lock:
            self._posts.append(post)
        self._node.broadcast(post, timeout=10)

    def posts(self) -> list[dict[str, str]]:
        """Return all posts, in causal order."""
        with self._lock:
            return list(self._posts)


def make_app(board: Board) -> Flask:
    """Return the web application of a board."""
    app = Flask(__name__)

    def show_posts() -> Response:
        return jsonify(board.posts())

    def add_post() -> tuple[str, int]:
        board.post(request.get_data(as_text=True))
        return "", 201

    app.add_url_rule("/posts", view_func=show_posts)
    app.add_url_rule("/posts", view_func=add_post, methods=["POST"])
    return app


def main(name: str, port: str, bind: str, *peers: str) -> None:
    """Run the node and the server until Ctrl-C."""
    with sync.Node(
        name,
        bind=bind,
        peers=dict(peer.split("=", 1) for peer in peers),
        encode=lambda value: json.dumps(value).encode(),
        decode=json.loads,
    ) as node:
        board = Board(node)
        threading.Thread(target=board.receive_all, daemon=True).start()
        make_app(board).run(port=int(port), threaded=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
