// When each token is due, and a clock that goes on only while somebody watches. Knows times; knows no text.

const FRAME_MAX_S = 0.25; // a longer gap between two frames was an absence, not time that was watched
const TTFT_PARTS = ["queue_s", "template_s", "tokenize_s", "prefill_s", "sample_s"];

/** Seconds from Play to token `index` as measured, without the reader's own pauses. */
function measuredDue(store, index) {
  return TTFT_PARTS.reduce((sum, part) => sum + store.prefill[part], 0) + store.itlSum[index];
}

function chosenDue(data, index) {
  return data.ttft_s + index * data.tpot_s;
}

class Race {
  /** `show` is called once a frame while the clock goes. */
  constructor(show) {
    Object.assign(this, { show, at: 0, playing: false, frame: 0, last: null });
  }

  start() {
    Object.assign(this, { at: 0, playing: true, last: null });
    this.frame ||= requestAnimationFrame((now) => this.tick(now));
  }

  stop() {
    cancelAnimationFrame(this.frame);
    Object.assign(this, { playing: false, frame: 0 });
  }

  tick(now) {
    this.frame = 0;
    this.at += this.last === null ? 0 : Math.min((now - this.last) / 1000, FRAME_MAX_S);
    this.last = now;
    this.show();
    if (this.playing) this.frame = requestAnimationFrame((next) => this.tick(next));
  }
}
