"""What varvite raises: a class for each kind of error, by what the caller can do about it."""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """Something failed; the sentence names file and place, what was expected, and the next step."""

    kind: ClassVar[str] = ""


class IoError(Error):
    """The disk refused or failed: free space, fix permissions or the device, then try again."""

    kind = "io"


class CorruptError(Error):
    """Bytes on disk are not what was written: restore from a snapshot or another copy."""

    kind = "corrupt"


class VersionError(Error):
    """The file was written by a newer release: use that release."""

    kind = "version"


class LockedError(Error):
    """Another process, handle or call has it: let that finish first."""

    kind = "locked"


class MissingError(Error):
    """What was named does not exist."""

    kind = "missing"


class ExistsError(Error):
    """What was to be created exists already."""

    kind = "exists"


class InvalidError(Error, ValueError):
    """The call itself is wrong: fix its arguments."""

    kind = "invalid"


class ClosedError(Error):
    """The object was closed, or belongs to the process that forked: open it again."""

    kind = "closed"


class PoisonedError(Error):
    """A sync or a rollback failed earlier, so writing has stopped: reopen the store."""

    kind = "poisoned"


class HiddenError(Error):
    """A proof does not show what was looked at: ask for one that does."""

    kind = "hidden"


class CollectedError(Error):
    """A collection took it, as it was told to: ask a store that keeps older commits."""

    kind = "collected"


class PanicError(Error):
    """The library ran into a fault of its own, and caught it: report it, and close what you used."""

    kind = "panic"


BY_KIND: dict[str, type[Error]] = {
    found.kind: found
    for found in (
        IoError,
        CorruptError,
        VersionError,
        LockedError,
        MissingError,
        ExistsError,
        InvalidError,
        ClosedError,
        PoisonedError,
        HiddenError,
        CollectedError,
        PanicError,
    )
}
