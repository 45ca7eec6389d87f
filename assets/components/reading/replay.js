// The clock of one reading: it counts measured seconds and can be slowed, stopped and set. Knows time; knows no picture.

const FRAME_MAX_S = 0.25; // a longer gap between two frames was an absence, not time that was watched
const SHORT_S = 6;
const LONG_S = 20;

/** Where the pass stands after `at` measured seconds, and how it moves on: a clock that can be slowed, stopped and set. */
class Replay {
  constructor(show) {
    Object.assign(this, { show, at: 0, total: 0, ends: [], speed: "short", playing: false, frame: 0, last: null });
  }

  /** `times`: seconds of each layer; what the pass took beyond them (embedding, masks, head) comes after them. */
  load(times, total) {
    let sum = 0;
    this.ends = times.map((seconds) => (sum += seconds));
    this.total = Math.max(total, sum);
  }

  /** Measured seconds that go by in one second of watching. */
  get rate() {
    return this.speed === "real" ? 1 : this.total / (this.speed === "short" ? SHORT_S : LONG_S);
  }

  /** Layers that are done, and one more once the first token has been read off. */
  get stage() {
    return [...this.ends, this.total].filter((end) => end <= this.at + 1e-12).length;
  }

  play() {
    if (this.at >= this.total) this.at = 0;
    Object.assign(this, { playing: true, last: null });
    this.frame ||= requestAnimationFrame((now) => this.tick(now));
    this.show();
  }

  pause() {
    cancelAnimationFrame(this.frame);
    Object.assign(this, { playing: false, frame: 0 });
    this.show();
  }

  set(at) {
    this.at = Math.min(Math.max(at, 0), this.total);
    this.pause();
  }

  /** One layer on or back. */
  move(by) {
    const stops = [0, ...this.ends, this.total];
    this.set(stops[Math.min(Math.max(this.stage + by, 0), stops.length - 1)]);
  }

  tick(now) {
    this.frame = 0;
    const gone = this.last === null ? 0 : Math.min((now - this.last) / 1000, FRAME_MAX_S);
    Object.assign(this, { last: now, at: Math.min(this.at + gone * this.rate, this.total) });
    if (this.at >= this.total) this.playing = false;
    if (this.playing) this.frame = requestAnimationFrame((next) => this.tick(next));
    this.show();
  }
}
