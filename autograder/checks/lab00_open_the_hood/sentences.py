"""Real sentences for the real head."""

from __future__ import annotations

SENTENCES = (
    "<en> she has eaten <es> ella ha",
    "<en> she has eaten <es> ella",
    "<es> ellos han hablado <en> they have",
    "<en> I will drink <es> yo",  # its largest logit of all is not in its last row
)
