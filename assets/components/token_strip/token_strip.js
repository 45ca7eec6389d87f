// One chip per token; tokens that make one character only together stand under a brace with that character.

const MOVES = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

function chipOf(token, labels) {
  const chip = element("span", `chip ${token.kind}${token.special ? " special" : ""}`);
  chip.setAttribute("role", "listitem");
  chip.tabIndex = -1;
  chip.append(tokenNodes(token));
  chip.title = tokenText(token, labels);
  chip.setAttribute("aria-label", chip.title);
  return chip;
}

const KEPT = 220; // chips left in the page while a long run plays: it is painted at every step
const KEPT_MAX = 320;

/** The strip's chips in order, in groups; appends one token at a time. */
class Chips {
  constructor(box) {
    Object.assign(this, { box, all: [], nodes: new WeakMap(), grouper: new Grouper(), parked: [] });
  }

  clear() {
    this.box.replaceChildren();
    this.all = [];
    this.parked = [];
    this.grouper = new Grouper();
  }

  push(token, labels) {
    const chip = chipOf(token, labels);
    this.all.push(chip);
    const group = this.grouper.push(token);
    if (group.tokens.length === 1) {
      this.nodes.set(group, chip);
      this.box.append(chip);
    } else {
      this.gather(group, chip);
    }
  }

  /** Put a chip, and the group that was swallowed with it, under the brace of `group`. */
  gather(group, chip) {
    const box = this.braced(group);
    if (group.absorbed) {
      const old = this.nodes.get(group.absorbed);
      box.append(...(old.classList.contains("group") ? old.querySelectorAll(".chip") : [old]));
      if (old.classList.contains("group")) old.remove();
    }
    box.append(chip);
    box.classList.toggle("open", group.text === null);
    const caption = box.querySelector(".caption");
    caption.replaceChildren(group.text === null ? "…" : this.captionOf(group.text));
  }

  /** Take out whole lines from the top, so that no line below breaks elsewhere. */
  park() {
    const nodes = [...this.box.children];
    if (nodes.length < KEPT_MAX || this.box.querySelector(":focus")) return;
    const foot = (node) => node.offsetTop + node.offsetHeight;
    let at = nodes.length - KEPT;
    const line = foot(nodes[at]);
    while (at > 0 && Math.abs(foot(nodes[at - 1]) - line) < 4) at -= 1;
    this.parked.push(...nodes.slice(0, at));
    for (const node of nodes.slice(0, at)) node.remove();
  }

  unpark() {
    if (this.parked.length) this.box.prepend(...this.parked);
    this.parked = [];
  }

  captionOf(text) {
    return /^[\p{C}\p{Z}]*$/u.test(text) ? visible(text) : text.trim();
  }

  braced(group) {
    const node = this.nodes.get(group);
    if (node.classList.contains("group")) return node;
    const box = element("span", `group ${group.kind}`);
    box.setAttribute("role", "presentation");
    const [caption, brace] = [element("span", "caption"), element("span", "brace")];
    for (const part of [caption, brace]) part.setAttribute("aria-hidden", "true");
    node.replaceWith(box);
    box.append(caption, brace, node);
    this.nodes.set(group, box);
    return box;
  }
}

function createTokenStrip(view) {
  const [frame, box, empty, detail] = [".frame", ".chips", ".ob-empty", ".detail"].map((selector) => view.root.querySelector(selector));
  const chips = new Chips(box);
  let drawn = 0;
  let newest = null;

  const show = (chip) => setText(detail, chip ? chip.title.replaceAll("\n", "↵") : chips.all.length ? view.data.labels.token_strip_hint : "");
  box.onpointerover = (event) => show(event.target.closest(".chip"));
  box.onpointerleave = () => show(null);
  box.onclick = (event) => focusChip(event.target.closest(".chip"));
  frame.onscroll = () => {
    if (scrolledUp()) chips.unpark();
  };
  const scrolledUp = () => frame.scrollTop < -60; // the strip hangs from its end: 0 is the newest line
  const focusChip = (chip) => {
    if (!chip) return;
    chips.unpark();
    const before = box.querySelector('[tabindex="0"]');
    if (before) before.tabIndex = -1;
    chip.tabIndex = 0;
    chip.focus({ preventScroll: false });
    show(chip);
  };
  box.onkeydown = (event) => {
    if (!(event.key in MOVES) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation(); // the page's own arrow keys step the run
    const at = chips.all.indexOf(event.target.closest(".chip"));
    focusChip(chips.all[Math.min(Math.max(at + MOVES[event.key], 0), chips.all.length - 1)]);
  };

  const restart = (data, labels) => {
    chips.clear();
    drawn = 0;
    newest = null;
    show(null);
    frame.classList.toggle("newest", data.show === "all");
    box.setAttribute("aria-label", labels.token_strip_name);
    setText(empty, labels.token_strip_none);
  };
  const markNewest = (chip) => {
    newest?.classList.remove("newest");
    newest = chip;
    newest?.classList.add("newest");
  };

  const draw = ({ store, shown, full, data, labels }) => {
    if (full) restart(data, labels);
    const start = data.tokens ?? store.tokens;
    const count = start.length + (data.show === "all" && !data.tokens ? shown : 0);
    for (; drawn < count; drawn += 1) chips.push(drawn < start.length ? start[drawn] : generatedToken(store, drawn - start.length), labels);
    if (full && chips.all.length) {
      chips.all[0].tabIndex = 0;
      setText(detail, labels.token_strip_hint);
    }
    empty.hidden = count > 0;
    const writing = data.show === "all" && count > start.length && (store.status !== "ended" || data.cursor !== null);
    markNewest(writing ? chips.all.at(-1) : null);
    if (store.status !== "running") chips.unpark();
    else if (data.show === "all" && drawn % 32 === 0 && !scrolledUp()) chips.park();
  };
  return { draw, sized: true };
}

export default function tokenStrip(component) {
  return live.mount("token_strip", component, createTokenStrip);
}
