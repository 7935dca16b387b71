"""What the server of a course keeps between its runs, outside of the course's folder: its key, logins, what was spent.

The folder is ``serve/NAME`` in the user's state folder, where NAME stands for the course's folder and its name. A
course that came with somebody's repository brings neither passwords nor keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from lmm.disk.files import state_folder
from lmm.errors import FileReadError, FileWriteError

_BYTES = 32


@dataclass(frozen=True, slots=True)
class ServeState:
    """The folder of one course's server; it is made when something is first kept in it."""

    folder: Path

    @property
    def logins(self) -> Path:
        """Hashed passwords and keys."""
        return self.folder / "logins.json"

    @property
    def database(self) -> Path:
        """What was spent."""
        return self.folder / "spent.sqlite"

    @property
    def ended(self) -> Path:
        """Sessions that were ended before their time."""
        return self.folder / "ended"

    @property
    def teacher(self) -> Path:
        """The teacher's hashed password."""
        return self.folder / "teacher.json"

    @property
    def teacher_ended(self) -> Path:
        """Sessions of the teacher that were ended before their time."""
        return self.folder / "teacher-ended"

    def make(self) -> None:
        """Make the folder, for its owner alone.

        Raises:
            FileWriteError: it cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise _unwritable(self.folder, error) from error

    def key(self) -> bytes:
        """The course's secret key, made when it is first asked for; of two processes, one makes it.

        Raises:
            FileReadError: it cannot be read, or is damaged.
            FileWriteError: it cannot be written.
        """
        file = self.folder / "key"
        if not file.exists():
            self.make()
            _write_once(file, secrets.token_bytes(_BYTES))
        try:
            key = file.read_bytes()
        except OSError as error:
            raise FileReadError(f"cannot be read: {error.strerror}", where=str(file)) from error
        if len(key) != _BYTES:
            raise FileReadError("this is no key", where=str(file), hint="remove it: all browsers become strangers")
        return key


def serve_state(root: Path, course: str) -> ServeState:
    """Where the server of the course `course` in the folder `root` keeps its own."""
    digest = hashlib.sha256(os.fsencode(f"{root.resolve()}\0{course}")).hexdigest()[:12]
    return ServeState(state_folder() / "serve" / f"{root.resolve().name or 'course'}-{digest}")


def _write_once(file: Path, data: bytes) -> None:
    """Write a whole file that only its owner reads, unless there is one."""
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, file)
    except OSError as error:
        raise _unwritable(file, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> FileWriteError:
    hint = "name another folder: export LMM_STATE_DIR=…"
    return FileWriteError(f"cannot be written: {error.strerror}", where=str(path), hint=hint)
