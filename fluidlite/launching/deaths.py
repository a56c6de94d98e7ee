"""Which of the ranks of an `mpiexec` died first: it kills the others at once, and names any of them."""

from __future__ import annotations

import os
import pathlib
import select
import threading

__all__ = ["DeathWatch"]

_LOOK = 50  # milliseconds between looks for ranks that have started
# Linux has it; elsewhere the first death stays unknown
_open = getattr(os, "pidfd_open", None)


class DeathWatch:
    """Watches the processes that have left a file, called by their id, in a folder; a process that ends well
    takes its file away.

    first: the name in the file of the process that died first; "" where none did, or several at once.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.first = ""
        self._watched: dict[int, pathlib.Path] = {}  # descriptor of a process -> its file
        self._known: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if _open is not None and hasattr(select, "poll"):
            self._thread.start()

    def _watch(self) -> None:
        poll = select.poll()
        while not (self._ended.is_set() or self.first):
            self._find_new(poll)
            # a death wakes the poll at once: the others are killed some milliseconds later
            dead = [number for number, _ in poll.poll(_LOOK)]
            names = []
            for number in dead:
                poll.unregister(number)
                os.close(number)
                path = self._watched.pop(number)
                if path.exists():
                    names.append(path.read_text(encoding="utf8"))
            if names:
                self.first = names[0] if len(names) == 1 else ""
                break
        for number in self._watched:
            os.close(number)

    def _find_new(self, poll: select.poll) -> None:
        assert _open is not None
        for path in self.folder.iterdir():
            if path.name in self._known or not path.name.isdigit():
                continue
            self._known.add(path.name)
            try:
                number = _open(int(path.name))
            except OSError:
                continue  # it has ended meanwhile
            self._watched[number] = path
            poll.register(number, select.POLLIN)

    def end(self) -> None:
        """Watch no longer."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
