"""Listen addresses as settings write them, and how a parent process learns which free ports were taken.

Demo, sandbox and tests start every service with port 0. Each server that has bound announces its port in the
file named by `PHALANX_PORT_FILE`; the parent reads it once all the names that it needs are there.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import orjson

PORT_FILE_VARIABLE = "PHALANX_PORT_FILE"
_HIGHEST_PORT = 65535


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `:port` (all interfaces) or `[ipv6]:port`; ValueError says what is wrong."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > _HIGHEST_PORT:
        raise ValueError(f"address {text!r}: expected HOST:PORT with a port from 0 (any free one) to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"address {text!r}: an IPv6 host is written in brackets, as [::1]:8080")
    return host or "0.0.0.0", int(port)  # noqa: S104 - ":8080" means every interface, as everywhere


def join_address(host: str, *, port: int) -> str:
    """The text form of a host and port, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def announce_port(name: str, *, port: int, environ: Mapping[str, str] = os.environ) -> None:
    """Add a bound port (`http`, `grpc`, …) to the port file, if one is asked for.

    The file is replaced as a whole, so a reader never sees half a document.
    """
    target = environ.get(PORT_FILE_VARIABLE)
    if not target:
        return
    path = Path(target)
    known = orjson.loads(path.read_bytes()) if path.exists() else {}
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(orjson.dumps(known | {name: port}))
    part.replace(path)


def is_free_port(port: int, *, host: str = "127.0.0.1") -> bool:
    """Tell whether nobody listens on a port now. Connections that have ended do not count, as for our servers."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
