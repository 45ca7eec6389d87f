"""Records that came from a file and stand in the app's book like runs that have ended: pages show them, nothing can be asked of them.

Knows the book; does not know files, sessions or the engine process.
"""

from __future__ import annotations

import secrets

from engine.serve.book import Book
from engine.serve.protocol import Submit
from engine.trace import RunRecord


class Recordings:
    """The recordings of a client, which brings the book."""

    _book: Book

    def file_record(self, record: RunRecord, *, session: str, device: str = "auto") -> tuple[str, str]:
        """A record becomes a run of the book that has ended, with `recording` set: (run id, steering key), both fresh. It is bounded as all
        runs are, and recordings together keep to a share; looks and branches raise NotRecorded at once, and the engine process hears
        nothing of it.

        `device`: on which the tokenizer of the record's model may be asked. Raises TooManyRuns.
        """
        run_id, key = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        command = Submit(run_id, session, record.model.model_id, device, record.prompt, record.settings, play=False)
        self._book.add(command, key, record=record)
        return run_id, key
