// The chips of a strip: one per token, in slices, those that make one character only together under a brace with that character.
// Knows tokens and where their chips stand; knows no run, and nothing of what a chip is pointed at for.

const SLICE = 250; // chips that are laid out together: a slice off the screen costs no layout and no paint
const SAME_LINE_PX = 4;

function chipOf(token, labels) {
  const chip = element("span", `chip ${token.kind}${token.special ? " special" : ""}`);
  chip.setAttribute("role", "option");
  chip.spoken = tokenText(token, labels); // what it is, whoever reads it
  chip.setAttribute("aria-label", chip.spoken);
  chip.setAttribute("data-id", token.id);
  chip.append(tokenNodes(token));
  return chip;
}

/** The strip's chips in order, in groups and slices; appends one token at a time. */
class Chips {
  constructor(box) {
    this.box = box;
    this.clear();
  }

  clear() {
    this.box.replaceChildren();
    Object.assign(this, { all: [], tokens: [], nodes: new WeakMap(), groups: new WeakMap(), grouper: new Grouper(), slice: null, joined: false });
  }

  push(token, labels) {
    const chip = chipOf(token, labels);
    this.all.push(chip);
    this.tokens.push(token);
    const group = this.grouper.push(token);
    if (group.tokens.length > 1) {
      this.gather(group, chip);
      return;
    }
    this.nodes.set(group, chip);
    this.openSlice(token).append(chip);
  }

  openSlice(token) {
    if (this.slice && this.slice.childElementCount < SLICE) return this.slice;
    const slice = element("div", "slice");
    slice.setAttribute("role", "presentation");
    if (this.slice) slice.setAttribute("data-from", token.position);
    this.box.append(slice);
    this.slice = slice;
    return slice;
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
    const caption = group.text === null ? "…" : this.captionOf(group.text);
    box.classList.toggle("open", group.text === null);
    box.setAttribute("aria-label", group.text ?? "…");
    box.querySelector(".caption").replaceChildren(caption);
  }

  captionOf(text) {
    return /^[\p{C}\p{Z}]*$/u.test(text) ? visible(text) : text.trim();
  }

  braced(group) {
    const node = this.nodes.get(group);
    if (node.classList.contains("group")) return node;
    const box = element("span", `group ${group.kind}`);
    box.setAttribute("role", "group");
    const [caption, brace] = [element("span", "caption"), element("span", "brace")];
    for (const part of [caption, brace]) part.setAttribute("aria-hidden", "true");
    node.replaceWith(box);
    box.append(caption, brace, node);
    this.nodes.set(group, box);
    this.groups.set(box, group);
    this.joined = true;
    return box;
  }

  at(chip) {
    return this.all.indexOf(chip);
  }

  tokenOf(chip) {
    return this.tokens[this.at(chip)];
  }

  /** The group a chip stands under the brace of, or null. */
  groupOf(chip) {
    return this.groups.get(chip.closest(".group")) ?? null;
  }

  /** The chip `distance` pixels below (above: negative) chip number `at`, nearest to it sideways; the last (first) one if there is none. */
  beside(at, distance) {
    const [way, own] = [Math.sign(distance), this.all[at].getBoundingClientRect()];
    const far = (rect) => way * (rect.bottom - own.bottom);
    const aside = (rect) => Math.abs(rect.left + rect.width / 2 - own.left - own.width / 2);
    let [best, line, least] = [-1, 0, Infinity];
    for (let next = at + way; next >= 0 && next < this.all.length; next += way) {
      const rect = this.all[next].getBoundingClientRect();
      if (far(rect) < Math.max(Math.abs(distance), SAME_LINE_PX)) continue;
      if (best < 0) line = rect.bottom;
      else if (Math.abs(rect.bottom - line) >= SAME_LINE_PX) break;
      if (aside(rect) < least) [best, least] = [next, aside(rect)];
    }
    return best >= 0 ? best : way > 0 ? this.all.length - 1 : 0;
  }
}
