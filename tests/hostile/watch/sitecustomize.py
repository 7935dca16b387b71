"""Stands in the PYTHONPATH of every process of the suite: writes down what it does that nobody asked for, and ends it.

An audit hook sees each connection, look-up of a name and datagram, whichever library makes it, and each file that is
opened by its path. Processor time, memory and the size of files are bounded.
"""

import os
import resource
import sys
from typing import Any

_LOG = os.environ["HOSTILE_LOG"]
_FORBIDDEN = frozenset(os.environ["HOSTILE_FORBIDDEN"].split(os.pathsep))
_TOP = os.environ["HOSTILE_TOP"]
_HERE = ("", "localhost", "127.0.0.1", "::1", "0.0.0.0")
_CONTACT = 97


def _told(line: str) -> None:
    descriptor = os.open(_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
    os.close(descriptor)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" or event == "socket.sendto" or event == "socket.sendmsg":
        if isinstance(arguments[1], tuple):
            _told(f"contact: {event} {arguments[1]}")
            os._exit(_CONTACT)
    elif event == "socket.getaddrinfo" or event == "socket.gethostbyname":
        host = arguments[0]
        if host is not None and (host.decode() if isinstance(host, bytes) else host) not in _HERE:
            _told(f"contact: {event} {host}")
            os._exit(_CONTACT)
    elif event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"):
        _told(f"program: {arguments[0]!r}")
    elif event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if path.startswith(_TOP) or not path.startswith("/"):
            real = os.path.realpath(path)
            if real in _FORBIDDEN:
                _told(f"opened: {path} -> {real}")


resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_FSIZE, (500 << 20, 500 << 20))
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.addaudithook(_watch)
