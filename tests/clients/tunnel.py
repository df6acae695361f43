"""What stands between a client and the appliance: it may speak WebSockets to the appliance, and cut the connection."""

import contextlib
import socket
import ssl
import threading

import websocket

READ_BYTES = 65_536


class Tunnel:
    """Listens on a port of its own and passes on what comes, each connection for itself.

    `cuts` has the number of bytes after which a connection is cut, both ways counted; when it is used up, none is cut.
    `written` is how many bytes the appliance has written."""

    def __init__(self, connect, cuts=()):
        self._connect = connect
        self._cuts = iter(cuts)
        self._lock = threading.Lock()
        self.cut, self.written = 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    server = self._connect()
                except OSError:
                    client.close()
                    continue
                _Passing(self, client, server, next(self._cuts, None))


class _Passing:
    """Two sockets, and how many bytes may still go between them."""

    def __init__(self, tunnel, client, server, left):
        self.tunnel, self.left, self.lock = tunnel, left, threading.Lock()
        self.sockets = [client, server]
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pass, args=(source, target, source is server), daemon=True).start()

    def _pass(self, source, target, is_answer):
        with contextlib.suppress(OSError, ssl.SSLError, websocket.WebSocketException):
            while data := source.recv(READ_BYTES):
                if is_answer:
                    with self.tunnel._lock:
                        self.tunnel.written += len(data)
                data, is_last = self._allowed(data)
                target.sendall(data)
                if is_last:
                    break
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                each.close()

    def _allowed(self, data):
        with self.lock:
            if self.left is None:
                return data, False
            allowed = data[: self.left]
            self.left -= len(allowed)
            if self.left > 0:
                return allowed, False
        with self.tunnel._lock:
            self.tunnel.cut += 1
        return allowed, True


class _WebSocket:
    """A WebSocket with the methods of a socket."""

    def __init__(self, url, authority):
        options = {"sslopt": {"ca_certs": str(authority)}} if url.startswith("wss:") else {}
        self.inner = websocket.create_connection(url, subprotocols=["AMQPWSB10"], skip_utf8_validation=True, **options)

    def recv(self, _):
        return self.inner.recv()

    def sendall(self, data):
        self.inner.send_binary(data)

    def shutdown(self, _):
        self.inner.sock and self.inner.sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.inner.shutdown()


def over_websockets(appliance):
    """Opens a WebSocket to the appliance, to be used as a socket."""
    url = appliance.url.replace("http", "ws", 1) + "/$servicebus/websocket"
    return _WebSocket(url, appliance.authority)


def over_tcp(appliance, window=None):
    """Opens a connection to the appliance's port, whatever is spoken in it. The system keeps no more unread bytes than its
    window, about as much again of what the appliance has written."""
    host, port = appliance.url.split("://")[1].split(":")
    opened = socket.socket()
    if window:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    opened.connect((host, int(port)))
    return opened
