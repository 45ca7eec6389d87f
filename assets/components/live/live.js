// Who draws when: one store per run and one drawing turn per frame, shared by all components of the page on `window.__openbook`.
// Knows mounted components and frames; knows no message and no picture.

const LIVE_VERSION = 7;
const GRACE_MS = 1000; // a page change keeps its connection
const KEPT_STORES = 3;
const WAY_MS = 15_000; // a page that has not come by then is not coming
const SIGHT_MARGIN = "120px"; // what will be scrolled in next is drawn already

/** Log when each token's picture was drawn and by which components: once each, for the benchmark. */
function logPictures(store, began, drawn) {
  const now = performance.now();
  for (let index = store.pictures.length; index < store.generated; index += 1) store.pictures.push({ index, t: now, cost_ms: now - began, drawn });
}

/** Whether the pictures of a run move by themselves or under the reader's hand. */
function moves(store) {
  return store.status === "running" || store.hand || Boolean(store.player?.playing);
}

/** Draw one view if anything that it shows has changed. While pictures move, what is off the screen waits: it draws when it is scrolled in. */
function drawView(view) {
  const { store, part, data } = view;
  if (!view.onScreen && moves(store) && view.shown >= 0) return false;
  const cursor = data.at ?? store.cursor; // `at`: a picture of one moment, wherever the others stand
  const shown = cursor === null ? store.generated : Math.min(store.generated, cursor + 1);
  const full = view.full || view.epoch !== store.epoch || shown < view.shown;
  if (!full && shown === view.shown && view.revision === store.revision && !(part.follows && view.total !== store.generated)) return false;
  Object.assign(view, { full: false, epoch: store.epoch, shown, revision: store.revision, total: store.generated });
  part.draw({ store, shown, full, data, labels: data.labels, theme: view.theme, cursor });
  view.root.inert = false;
  return true;
}

/** One drawing turn: each run takes at most one picture's messages, and every component of it draws in the same frame. */
function drawTurn(hub) {
  hub.frame = 0;
  for (const store of [hub.idle, ...Object.values(hub.runs)]) {
    const began = performance.now();
    advance(store);
    const drawn = [...store.views].filter(drawSafely).map((view) => view.name);
    if (drawn.length) logPictures(store, began, drawn);
    if (store.queue.length) hub.wake();
  }
}

/** A component that fails does not stop the others. */
function drawSafely(view) {
  try {
    return drawView(view);
  } catch (error) {
    console.error("OpenBook:", error);
    return false;
  }
}

/** Let a component follow a run; the first one opens the connection. */
function joinRun(hub, view, runId, path) {
  const store = runId ? (hub.runs[runId] ??= newStore(runId)) : hub.idle;
  if (view.store !== store) {
    if (view.store) leaveRun(hub, view);
    Object.assign(view, { store, full: true, heard: store.words.length - 1 });
    store.views.add(view);
  }
  clearTimeout(store.closing);
  if (runId && !store.link) store.link = new Link(store, path, hub.wake);
}

/** The last component to leave closes the connection, unless another one comes within the grace. */
function leaveRun(hub, view) {
  const { store } = view;
  store.views.delete(view);
  if (store.views.size || !store.link) return;
  store.closing = setTimeout(() => {
    store.link.close();
    Object.assign(store, { link: null, channel: "connecting" });
    const unused = Object.values(hub.runs).filter((other) => !other.link && !other.views.size);
    for (const old of unused.slice(0, -KEPT_STORES)) delete hub.runs[old.runId];
  }, GRACE_MS);
}

/** A component's own side: its root, its part (what it draws with) and what it has drawn so far. */
function buildView(hub, host, name, create) {
  const root = host.querySelector(".ob");
  root.inert = true; // no hand reaches what has not been drawn yet
  const view = { name, root, store: null, data: {}, theme: {}, full: true, shown: -1, epoch: -1, revision: -1, total: -1, width: 0, settings: "", onScreen: true };
  view.redraw = () => {
    view.full = true;
    hub.wake();
  };
  view.part = create(view);
  view.observer = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === view.width) return;
    view.width = width;
    if (view.part.sized) view.redraw();
  });
  view.observer.observe(root);
  view.sight = new IntersectionObserver(([entry]) => {
    view.onScreen = entry.isIntersecting;
    hub.wake();
  }, { rootMargin: SIGHT_MARGIN });
  view.sight.observe(root);
  return view;
}

/** Bring a component to the page, or up to date. Safe to call any number of times; returns its farewell. */
function mountView(hub, name, component, create) {
  const host = component.parentElement;
  let view = hub.views.get(host);
  if (view && !host.contains(view.root)) {
    closeView(hub, host, view);
    view = null;
  }
  if (!view) hub.views.set(host, (view = buildView(hub, host, name, create)));
  const { cursor = null, known, fallback, ...rest } = component.data;
  const theme = readTheme(view.root);
  const settings = JSON.stringify(rest);
  if (settings !== view.settings || theme.key !== view.theme.key) view.full = true;
  Object.assign(view, { component, data: component.data, theme, settings, revision: -1 });
  joinRun(hub, view, component.data.run_id, component.data.path);
  if (cursor !== view.store.words[view.heard]) hearCursor(view.store, view, cursor); // a picture brought once more says nothing new
  if (fallback && view.store.channel !== "open" && fallback.run_id === view.store.runId) takeSnapshot(view.store, fallback);
  hub.wake();
  return () => closeView(hub, host, view);
}

function closeView(hub, host, view) {
  view.observer.disconnect();
  view.sight.disconnect();
  view.part.leave?.();
  leaveRun(hub, view);
  if (hub.views.get(host) === view) hub.views.delete(host);
}

const BAR_BUTTONS = ["begin", "back", "play", "step", "stop"];
const BAR_KEYS = { " ": "space", ArrowLeft: "back", ArrowRight: "step" };

/** Which of the transport bar's orders this event gives, by button or by key; null for anything else. */
function orderOf(event) {
  const path = event.composedPath();
  const under = (name) => path.some((node) => node.classList?.contains(name));
  if (event.type === "click") return BAR_BUTTONS.find((name) => under(`st-key-${name}`)) ?? null;
  const own = event.key === " " ? /^(INPUT|TEXTAREA|SELECT|BUTTON|A|SUMMARY)$/ : /^(INPUT|TEXTAREA|SELECT)$/;
  const typing = under("ob") || path.some((node) => node.isContentEditable || own.test(node.tagName));
  return typing || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey ? null : BAR_KEYS[event.key] ?? null;
}

/** While a replay is open, the bar's steps move the replay and do not reach Python. */
function offerOrder(hub, event) {
  const open = Object.values(hub.runs).filter((store) => store.player && store.views.size);
  const order = open.length ? orderOf(event) : null;
  if (!order || !open.filter((store) => store.player.obey(order)).length) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

/** Remember which page a clicked link leads to. */
function noteWay(hub, event) {
  const link = event.composedPath().find((node) => node instanceof HTMLAnchorElement && node.href);
  if (!link || link.target === "_blank" || link.origin !== location.origin || link.pathname === location.pathname) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return; // opens elsewhere
  hub.way = { path: link.pathname, until: performance.now() + WAY_MS };
}

/** Whether another page has been asked for and is not here yet. Until it is, every message to Python names the old page, and would
    call it back. */
function onTheWay(hub) {
  if (hub.way && (location.pathname === hub.way.path || performance.now() > hub.way.until)) hub.way = null;
  return hub.way !== null;
}

/** The one place from which Python hears anything: `how` is "setTriggerValue" (said once) or "setStateValue" (it stands). Nothing is said
    while another page is on its way; gives whether it was said. */
function say(hub, component, how, name, value) {
  if (hub.onTheWay()) return false;
  component[how](name, value);
  return true;
}

function createLive() {
  const hub = { version: LIVE_VERSION, runs: Object.create(null), views: new WeakMap(), idle: newStore(null), frame: 0, way: null };
  hub.wake = () => {
    hub.frame ||= requestAnimationFrame(() => drawTurn(hub));
  };
  hub.mount = (name, component, create) => mountView(hub, name, component, create);
  hub.onTheWay = () => onTheWay(hub);
  hub.tell = (component, name, value) => say(hub, component, "setTriggerValue", name, value);
  hub.keep = (component, name, value) => say(hub, component, "setStateValue", name, value);
  document.addEventListener("click", (event) => noteWay(hub, event), true);
  for (const kind of ["click", "keydown"]) window.addEventListener(kind, (event) => offerOrder(hub, event), true);
  document.addEventListener("visibilitychange", () => {
    for (const store of Object.values(hub.runs)) store.late = true;
    hub.wake();
  });
  return hub;
}

const live = window.__openbook?.version === LIVE_VERSION ? window.__openbook : (window.__openbook = createLive());
