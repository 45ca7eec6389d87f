// The answers to one question as a tree of lines: each over the tokens that it wrote itself, from where it left another one.
// The one on the page grows with the run; the others wait, as Python drew them. rows.js builds one row.

const ROOMS = [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
const WORDS = 16; // tokens after the fork that are shown

/** The first words that a branch wrote itself, as the page's store has them. */
function firstWords(store, from) {
  let bytes = NO_BYTES;
  for (let at = from; at < Math.min(store.generated, from + WORDS); at += 1) {
    const token = generatedToken(store, at);
    if (!token.special) bytes = joinBytes(bytes, bytesOf(token));
  }
  const more = store.generated > from + WORDS ? "…" : "";
  return scan(bytes).pieces.map(({ text }) => text ?? "\u25a1").join("") + more;
}

/** Keys of the tree: up and down go from branch to branch; what is taken does not reach the page, whose own Space plays the run. */
function wireTree(list) {
  list.onkeydown = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by || event.key === " " || event.key === "Enter") event.stopPropagation();
    if (!by) return;
    event.preventDefault();
    const buttons = [...list.querySelectorAll(".branch")];
    buttons[Math.min(Math.max(buttons.indexOf(event.target) + by, 0), buttons.length - 1)].focus();
  };
}

class Tree {
  constructor(view) {
    const [list, legend] = [".rows", ".ob-legend"].map((selector) => view.root.querySelector(selector));
    Object.assign(this, { view, list, legend, rows: [], room: 0, here: null });
    wireTree(list);
  }

  choose(branch) {
    if (branch.run_id !== this.view.store.runId) live.tell(this.view.component, "chosen", { run: branch.run_id });
  }

  /** Places on the lines, the same for all; some to spare while one is being written. */
  roomFor(store, branches) {
    const most = Math.max(store.generated, ...branches.map(({ tokens }) => tokens), 1);
    if (store.status !== "running") return most;
    return ROOMS.find((size) => size > most) ?? Math.ceil(most * 1.5);
  }

  build({ store, data, labels }) {
    const { branches } = data;
    this.room = this.roomFor(store, branches);
    this.rows = branches.map((branch, at) => buildBranch(branch, linesOf(branches, at), this.room, labels));
    this.here = this.rows.find(({ branch }) => branch.run_id === store.runId) ?? null;
    for (const { button, branch } of this.rows) {
      button.onclick = () => this.choose(branch);
      const here = branch.run_id === store.runId;
      button.classList.toggle("here", here);
      if (here) button.setAttribute("aria-current", "true");
    }
    this.list.replaceChildren(...this.rows.map(({ item }) => item));
    setAttribute(this.list, "aria-label", labels.branches_name);
    const states = [["waits", labels.branches_waits], ["running", labels.branches_running], ["ended", labels.branches_ended]];
    this.legend.replaceChildren(...states.map(([name, words]) => {
      const entry = element("span");
      entry.append(element("i", name), words);
      return entry;
    }));
  }

  draw(turn) {
    const { store, full, data, labels } = turn;
    const focused = full ? this.rows.findIndex(({ button }) => button.matches(":focus")) : -1;
    if (full || this.room < this.roomFor(store, data.branches)) this.build(turn);
    if (focused >= 0) this.rows[Math.min(focused, this.rows.length - 1)]?.button.focus();
    if (!this.here || !store.prefill) return;
    const { branch, own, end, words, tokens, tpot, kv } = this.here;
    const from = branch.index ?? 0;
    drawLine(own, end, from, store.generated, this.room);
    end.className = `end ${store.status}`;
    const steps = store.itl.length;
    setText(tokens, tokensText(branch.index, store.generated, labels));
    setText(tpot, tpotText(branch.index, steps > from ? (store.itlSum[steps] - store.itlSum[from]) / (steps - from) : null, labels));
    setText(kv, fill(labels.branches_kv, { size: bytesText(generatedStep(store, store.generated - 1).kv_bytes) }));
    if (full || !words.textContent.endsWith("…") || store.generated <= from + WORDS) setText(words, firstWords(store, from));
  }
}

export default function branches(component) {
  return live.mount("branches", component, (view) => {
    const own = new Tree(view);
    return { draw: (turn) => own.draw(turn), follows: true };
  });
}
