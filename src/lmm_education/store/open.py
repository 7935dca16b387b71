"""Open the store that the settings name, a folder or a server, and copy whole stores between them, of any kind: ids,
vectors, payloads and manifest stay the same."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from lmm.errors import ConfigError
from lmm.hosts import check_server, is_loopback_url
from lmm_education.config import StorageSettings
from lmm_education.errors import StoreMissing
from lmm_education.material import batches
from lmm_education.store.edge import EdgeStore
from lmm_education.store.port import COLLECTIONS, Store
from lmm_education.store.server import open_server

PAGE = 1000  # points copied at a time
_COURSE = re.compile(r"\w[\w.-]{0,199}")


def open_store(settings: StorageSettings, *, env: Mapping[str, str] | None = None) -> Store:
    """Open the server or cluster at ``settings.addresses`` if any, else the embedded store in ``folder/course``.

    Nothing is read or requested before first use. The key of a server comes from the environment.

    Raises:
        ConfigError: the course's name is not a valid folder name, or the key would be sent unencrypted to another
            machine.
    """
    if not _COURSE.fullmatch(settings.course):
        raise ConfigError(
            f"'course' under [storage] cannot be {settings.course!r}", hint="letters, digits, '_', '-' and '.' only"
        )
    if not settings.addresses:
        return EdgeStore(settings.folder / settings.course, root=settings.root, timeout=settings.timeout)
    return open_server(settings, _key_for(settings, os.environ if env is None else env))


def _key_for(settings: StorageSettings, env: Mapping[str, str]) -> str | None:
    key = env.get(settings.api_key_env) or None
    for address in settings.addresses:
        check_server(address, "'url' under [storage]")
        if key and not (is_loopback_url(address) or address.startswith("https://")):
            raise ConfigError(
                f"your {settings.api_key_env} would go to {address} unencrypted",
                hint="write https:// in 'url' under [storage]",
            )
    return key


# -- copying ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Transfer:
    """The result of a transfer: numbers of points written, of unchanged points, and of points removed because the
    source lacks them; and the target."""

    written: int = 0
    same: int = 0
    removed: int = 0
    target: str = field(default="", compare=False)


def copy_store(source: Store, target: Store, *, on_points: Callable[[int], None] = lambda count: None) -> Transfer:
    """Make `target` equal to `source`. Points that it already has are not written again, so that an interrupted
    transfer continues; others are removed at the end. `on_points` is called with the number of points done.

    Raises:
        StoreMissing: `source` is empty.
        StoreMismatch: `target` was made with other settings.
        StoreError: one of them fails.
    """
    manifest = source.manifest()
    if manifest is None:
        raise StoreMissing(source.location)
    written = same = removed = 0
    with target.writing(manifest) as writer:
        for collection in reversed(COLLECTIONS):  # sections before the chunks that name them
            seen: set[str] = set()
            for page in batches(source.scroll(collection, vectors=True), PAGE):
                seen.update(point.id for point in page)
                known = {point.id: point.payload for point in writer.get(collection, [point.id for point in page])}
                # The vectors follow from the payload: its ``hash`` is that of the embedded text.
                missing = [point for point in page if known.get(point.id) != point.payload]
                writer.upsert(collection, missing)
                written, same = written + len(missing), same + len(page) - len(missing)
                on_points(len(page))
            gone = [point.id for point in writer.scroll(collection, fields=False) if point.id not in seen]
            writer.delete(collection, gone)
            removed += len(gone)
    return Transfer(written, same, removed, target.location)


def transfer(
    here: Store,
    place: str,
    settings: StorageSettings,
    *,
    to: bool,
    env: Mapping[str, str],
    on_points: Callable[[int], None] = lambda count: None,
) -> Transfer:
    """Copy the store of a course to or from a folder or an address; see `copy_store`.

    Raises:
        ConfigError: the place is the store itself, or not valid for a store.
        StoreMissing: there is no store to copy.
    """
    there = elsewhere(settings, place)
    same = there.addresses[0] in settings.addresses if there.addresses else not settings.addresses
    if same and there.folder.resolve() == settings.folder.resolve():
        raise ConfigError("this is the store itself", where=place)
    with closing(open_store(there, env=env)) as other:
        if not to and other.manifest() is None:
            hint = "name the folder or server that lmm store push copied this course to"
            raise StoreMissing(other.location, "there is no store here", hint=hint)
        source, target = (here, other) if to else (other, here)
        return copy_store(source, target, on_points=on_points)


def elsewhere(here: StorageSettings, place: str) -> StorageSettings:
    """Return settings for the same course in another place, typed by the user, so that no file needs to be trusted."""
    if re.match(r"https?://", place):
        return here.replace(url=place)
    if "://" in place:
        raise ConfigError(f"'{place}' is neither a folder nor an address that begins with https://")
    return here.replace(url="", folder=Path(place), root=Path(place))
