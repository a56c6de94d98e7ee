"""Memory that libraries in C did not get, as Python's own error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["memory_errors"]

_OPENSSL = "[digital envelope routines]"  # all that can fail of a digest is its memory


@contextlib.contextmanager
def memory_errors(what: str) -> Iterator[None]:
    """MemoryError, naming `what`, where protobuf cannot serialise a message or OpenSSL cannot make a digest
    inside the `with`: both have errors of their own for it. Messages above 2 GiB count as such.
    """
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "EncodeError" and not str(error).startswith(_OPENSSL):
            raise
        raise MemoryError(
            f"{what}: there is not enough memory, or it is larger than 2 GiB ({error})"
        ) from error
