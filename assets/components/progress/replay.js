// A recording played from the transport bar, on every page: Play, its key and the steps move the cursor over what was written.
// Knows the bar's orders; how a replay keeps time is timeline/player.js's matter. Nothing reaches Python but where the pictures come to rest.

class BarReplay extends Player {
  constructor(view) {
    super(view, () => {}, () => this.say());
    this.claimed = null;
  }

  /** Stand ready for the bar's orders while a recording is on the page; another replay of it (the timeline's) goes first. */
  claim(store, recording) {
    if (this.claimed && (this.claimed !== store || !recording)) this.release();
    if (!recording) return;
    this.claimed = store;
    store.player ??= this;
  }

  release() {
    if (this.claimed?.player === this) this.claimed.player = null;
    this.claimed = null;
    Object.assign(this, { playing: false, frame: cancelAnimationFrame(this.frame) ?? 0 });
  }

  /** A hand on the timeline, or the timeline's own replay, takes over. */
  tick(now) {
    if (this.open && !this.store.hand) {
      super.tick(now);
      return;
    }
    Object.assign(this, { frame: 0, playing: false });
  }

  obey(order) {
    if (order !== "play" && order !== "space") return order !== "stop" && super.obey(order);
    this.toggle();
    return true;
  }

  say() {
    const { store, component } = this.view;
    if (store.cursor === store.told && !store.asked.length) return;
    if (live.tell(component, "looked", { run: store.runId, cursor: store.cursor })) store.asked.push(store.cursor);
  }
}
