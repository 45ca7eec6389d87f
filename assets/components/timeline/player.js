// The replay of one run: it moves the cursor over what was written, one token at a time, in the time that each one took.
// Knows stamps and the cursor; knows no picture. Nothing is computed again and nobody is asked.

const FRAME_MAX_S = 0.25; // a longer gap between two frames was an absence, not time that was watched

class Player {
  /** `show` draws the controls; `tell` is called where the cursor has come to rest. */
  constructor(view, show, tell) {
    Object.assign(this, { view, show, tell, pace: 0, playing: false, frame: 0, last: null, credit: 0 });
  }

  get store() {
    return this.view.store;
  }

  get newest() {
    return this.store.generated - 1;
  }

  /** The token that the pictures show. */
  get at() {
    return Math.min(this.store.cursor ?? this.newest, this.newest);
  }

  /** Whether the replay is open: playing, or stopped half-way. */
  get open() {
    return this.store.player === this;
  }

  /** Seconds from one token to the next: as measured, or slower. */
  secondsTo(index) {
    return Math.max(this.store.itl[index - 1], this.pace);
  }

  play() {
    if (this.newest < 1) return;
    if (this.at >= this.newest) lookAt(this.store, 0);
    this.store.player = this;
    Object.assign(this, { playing: true, last: null, credit: 0 });
    this.frame ||= requestAnimationFrame((now) => this.tick(now));
    live.wake();
    this.show();
  }

  halt() {
    cancelAnimationFrame(this.frame);
    Object.assign(this, { playing: false, frame: 0 });
    live.wake();
    this.show();
  }

  toggle() {
    if (!this.playing) {
      this.play();
      return;
    }
    this.halt();
    this.tell();
  }

  /** No replay any more; where the pictures stand is somebody else's matter. */
  close() {
    if (this.open) this.store.player = null;
    this.halt();
  }

  /** One frame: at most one token, so that each gets its picture; what time is left over counts for the next. */
  tick(now) {
    this.frame = 0;
    if (this.at >= this.newest) { // a shorter snapshot has come: nothing is left to be shown
      this.go(this.newest);
      return;
    }
    const gone = this.last === null ? 0 : Math.min((now - this.last) / 1000, FRAME_MAX_S);
    Object.assign(this, { last: now, credit: this.credit + gone });
    const wait = this.secondsTo(this.at + 1);
    if (this.credit >= wait) {
      this.credit = Math.min(this.credit - wait, FRAME_MAX_S);
      this.go(this.at + 1);
    }
    if (this.playing) this.frame = requestAnimationFrame((next) => this.tick(next));
  }

  /** Show token `index`; the newest one is where the replay ends and the run is followed again. */
  go(index) {
    const over = index >= this.newest;
    lookAt(this.store, over ? null : Math.max(index, 0));
    if (over && this.open) {
      this.close();
      this.tell();
    }
    live.wake();
  }

  /** An order of the transport bar while the replay is open; true where it was carried out here. */
  obey(order) {
    if (order === "space") {
      this.toggle();
    } else if (order === "back" || order === "begin" || order === "step") {
      this.halt();
      this.go({ back: this.at - 1, begin: 0, step: this.at + 1 }[order]);
      if (this.open) this.tell();
    } else { // play or stop: Python lets the pictures follow the run
      this.close();
      this.go(this.newest);
      return false;
    }
    return true;
  }
}
