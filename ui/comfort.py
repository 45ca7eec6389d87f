"""How long people like to wait: the comfortable ranges of the two times, for words, figures and charts alike.

Knows seconds; does not know a run. The texts say these numbers in their own words.
"""

from __future__ import annotations

TTFT_S = (1.0, 3.0)  # until the first token of a long question
TPOT_S = (0.05, 0.1)  # for each token: 10 to 20 tokens a second can be followed
