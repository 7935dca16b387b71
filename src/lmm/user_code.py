"""Users' Python code: loading their files, calling their functions, and locating errors in them."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

from lmm.errors import ConfigError, LmmError

_OURS = str(Path(__file__).parent)
# Folders of the standard library through which an exception comes from a task or a thread.
_WAITING = {"asyncio", "concurrent"}


def load_python(file: Path) -> ModuleType:
    """Load a Python file as a module; like a script, it can import files beside it.

    Raises:
        ConfigError: there is no such file, or it raises an exception.
    """
    spec = importlib.util.spec_from_file_location(f"lmm_user_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ConfigError("there is no such Python file", where=str(file), hint="check the path")
    module = importlib.util.module_from_spec(spec)
    importable_from(file.resolve().parent)
    sys.modules[spec.name] = module  # where annotations are looked up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        readable = user_error(error)
        raise ConfigError(readable.message, where=readable.where or str(file), hint="correct this file") from error
    return module


def importable_from(folder: Path) -> None:
    """Make the modules in a folder importable."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function and return its result: an async one is awaited, a sync one runs in a thread, so it may block.

    Each call has a daemon thread of its own, because calls may wait for one another.
    """
    done = Future[Any]()
    done.set_running_or_notify_cancel()  # a caller that stops waiting does not stop it

    def work() -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            done.set_exception(error if plain else _not_an_exception(error))
        else:
            done.set_result(result)

    try:
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        threading.Thread(target=work, name="lmm-user", daemon=True).start()
        result = await asyncio.wrap_future(done)
        return await result if inspect.isawaitable(result) else result
    except (KeyboardInterrupt, SystemExit) as error:
        raise _not_an_exception(error) from error


def _not_an_exception(error: BaseException) -> Exception:
    """Convert an exception that a future cannot hold, or that would end the loop, keeping its traceback."""
    return RuntimeError(f"{type(error).__name__} {error}".strip()).with_traceback(error.__traceback__)


def user_error(error: BaseException) -> LmmError:
    """Convert an exception in user code to an `LmmError` that names their file and line."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return LmmError(f"{type(error).__name__}: {error.msg}", where=f"{error.filename}:{error.lineno}")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((_OURS, "<frozen"))]
    if not frames and error.__cause__ is not None:  # a StopIteration that left a coroutine
        return user_error(error.__cause__)
    theirs = next((f.filename for f in frames if not _WAITING.intersection(Path(f.filename).parts)), "")
    line = next((f.lineno for f in reversed(frames) if f.filename == theirs), 0)
    return LmmError(text, where=f"{theirs}:{line}" if theirs else "", hint="correct the batch model, then run again")
