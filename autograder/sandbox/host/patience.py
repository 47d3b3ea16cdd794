"""How long an answer is waited for, on a clock that stands while the machine has no processor for
the process that is to give it."""

import time

BUSY = 3
"""Of the seconds that were agreed, no more than so many times: a class must end."""


class Patience:
    """With one request, from now on: so many seconds, and as many more as the process was kept
    waiting, up to `most_s` and to BUSY times as many."""

    def __init__(self, seconds: float, *, most_s: float = 0.0) -> None:
        self.seconds, self.kept_waiting_s = seconds, 0.0
        self._began = time.monotonic()
        self._most_s = max(seconds, min(BUSY * seconds, most_s))

    @property
    def deadline(self) -> float:
        """As time.monotonic() counts."""
        return self._began + min(self.seconds + self.kept_waiting_s, self._most_s)

    @property
    def spent_s(self) -> float:
        """Of the seconds that were agreed."""
        since_s = time.monotonic() - self._began
        return max(since_s - self.kept_waiting_s, since_s / BUSY)
