// The connection of one run: one WebSocket that opens, reads and tries again.
// Knows when a channel counts as open, down or closed for good; knows nothing of what the messages mean, apart from snapshots coming first.

const TRIES_MAX = 3;
const FIRST_FRAME_MS = 1500; // three silent openings and the waits between them must end within a run's lease (LEASE_S in engine/settings.py)
const SETTLED_MS = 5000; // a connection that lasted so long clears the count of failures
const RETRY_MS = [0, 100, 300, 5000, 10_000];
const FINAL = { 4403: "refused", 4404: "gone" }; // the server's own word, as ui/channel.py closes: asking again changes nothing

class Link {
  constructor(store, path, wake) {
    Object.assign(this, { store, path, wake, socket: null, timer: 0, failures: 0, openedAt: 0 });
    this.connect();
  }

  connect() {
    this.openedAt = 0;
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}${this.path}`);
    socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    socket.onclose = (event) => this.closed(event.code);
    this.socket = socket;
    this.timer = setTimeout(() => socket.close(), FIRST_FRAME_MS);
  }

  receive(message) {
    const { store } = this;
    if (!this.openedAt) {
      this.openedAt = performance.now();
      clearTimeout(this.timer);
      this.report("open");
    }
    if (message.run_id !== store.runId) return;
    if (message.type === "snapshot") takeSnapshot(store, message);
    else store.queue.push(message);
    this.wake();
  }

  /** A failure is an opening that brought no message; after three in a row the channel is down, and tried again ever more slowly. */
  closed(code) {
    clearTimeout(this.timer);
    if (code in FINAL) {
      this.report(FINAL[code]);
      return;
    }
    const settled = this.openedAt && performance.now() - this.openedAt > SETTLED_MS;
    this.failures = settled ? 1 : this.failures + 1;
    if (!this.openedAt && this.failures >= TRIES_MAX) this.report("down");
    const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.timer = setTimeout(() => this.connect(), this.store.status === "ended" && this.openedAt ? Math.max(wait, SETTLED_MS) : wait);
  }

  report(channel) {
    if (this.store.channel === channel) return;
    this.store.channel = channel;
    this.store.revision += 1;
    this.wake();
  }

  /** Hang up for good. */
  close() {
    clearTimeout(this.timer);
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
  }

  renew() {
    this.close();
    this.connect();
  }
}
