"""In the path of an app, this makes its engine's sweeps slow: each part of a layer takes so long as DAWDLE_FILE says at that moment.

So that a test meets a sweep that is still under way, on any machine. Only readings of sweeps ask their brake, so runs stay as fast as
they are. Knows where a sweep is asked whether it goes on; does not know what is measured. (Python imports a module of this name first.)
"""

import os
import sys
import threading
import time
from pathlib import Path

if "engine.serve.server" in sys.orig_argv:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from engine.serve import sweepwork

    NAP_S = 0.05  # many short ones would cost a busy machine far more than they last
    pace = Path(os.environ["DAWDLE_FILE"])

    class Dawdling(threading.Event):
        """A sweep's halt, asked before each part."""

        owed_s = 0.0

        def is_set(self) -> bool:
            self.owed_s += float(pace.read_text())
            if self.owed_s >= NAP_S:
                time.sleep(self.owed_s)
                self.owed_s = 0.0
            return super().is_set()

    class Threads:
        """What sweepwork takes for the threading module: it needs nothing but events."""

        Event = Dawdling

    sweepwork.threading = Threads
