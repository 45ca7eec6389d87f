// The answer sheet: the question in blue, the answer growing in red. Bytes of an unfinished character are held back, visibly.

const ENDS = {
  eos: "answer_end_eos", length: "answer_end_length", context_full: "answer_end_context_full", stopped: "answer_end_stopped",
  timeout: "answer_end_timeout", out_of_memory: "answer_end_out_of_memory", error: "answer_end_error",
  eos_hand: "answer_end_eos_hand", refused: "answer_end_refused",
};
const UNWATCHED = "unwatched"; // the error code of a run that ended because nobody looked

/** How the run ended, as ui/ends.py names it: an end token that the reader put there, and an exam that could not be begun, are ends of
    their own. `accidents`: the error codes that are no refusal. */
function endOf(store, accidents) {
  const reason = store.stop_reason;
  if (reason === "eos" && generatedStep(store, store.generated - 1).chosen_by === "reader") return "eos_hand";
  if (reason === "error" && !store.prefill && store.error && !accidents.includes(store.error.code)) return "refused";
  return reason;
}

/** Whole text at once, bytes that can never be text as hex. */
function writeBytes(box, bytes) {
  const { pieces, rest } = scan(bytes);
  if (rest.length) pieces.push({ bytes: rest });
  box.replaceChildren(...pieces.map((piece) => piece.text ?? element("span", "ob-hex", hex(piece.bytes))));
}

/** The growing text: one paragraph per line, so that only the last one is laid out again. */
class Sheet {
  constructor(box) {
    this.box = box;
    this.caret = element("span", "caret");
    this.pending = element("span", "ob-hex pending");
    this.clear();
  }

  clear() {
    this.box.replaceChildren();
    this.rest = NO_BYTES;
    this.line = null;
    this.tail = null;
  }

  open() {
    this.line = element("p");
    this.box.append(this.line);
    this.tail = null;
  }

  push(bytes) {
    const { pieces, rest } = scan(joinBytes(this.rest, bytes));
    this.rest = rest;
    for (const piece of pieces) {
      if (piece.text === undefined) this.addPiece("ob-hex", hex(piece.bytes));
      else this.addText(piece.text);
    }
  }

  /** A special token's name. A character that was unfinished before it stays so. */
  pushName(name) {
    if (this.rest.length) this.addPiece("ob-hex", hex(this.rest));
    this.rest = NO_BYTES;
    this.addPiece("special", name);
  }

  addText(text) {
    text.split("\n").forEach((part, at) => {
      if (at || !this.line) this.open();
      if (!part) return;
      if (this.tail) {
        this.tail.appendData(part);
        return;
      }
      this.tail = document.createTextNode(part);
      this.line.append(this.tail);
    });
  }

  addPiece(className, text) {
    if (!this.line) this.open();
    this.line.append(element("span", className, text));
    this.tail = null;
  }

  /** Show what is held back, and the caret while the pen is on the paper. */
  finish(writing, labels) {
    if (!this.line && (writing || this.rest.length)) this.open();
    this.pending.remove();
    if (this.rest.length) {
      this.pending.textContent = hex(this.rest);
      this.pending.title = labels.answer_pending;
      this.line.append(this.pending);
    }
    if (writing) this.line.append(this.caret);
    else this.caret.remove();
  }
}

function createAnswer(view) {
  const [question, text, end] = [".question", ".text", ".end"].map((selector) => view.root.querySelector(selector));
  const sheet = new Sheet(text);
  let drawn = 0;

  const ask = (store, before) => {
    if (before === null || !store.tokens.length) {
      question.textContent = before ?? "";
      return;
    }
    const asked = store.tokens.filter((token) => token.kind === "prompt");
    writeBytes(question, asked.reduce((bytes, token) => joinBytes(bytes, bytesOf(token)), NO_BYTES));
  };
  const endText = ({ store, shown, data, labels }) => {
    if (store.status === null) return labels.answer_none;
    if (store.status !== "ended") return "";
    if (shown < store.generated) return "";
    if (store.error?.code === UNWATCHED) return labels.answer_end_unwatched;
    return labels[ENDS[endOf(store, data.accidents)] ?? "answer_end_error"];
  };

  const draw = (now) => {
    const { store, shown, full, data, labels } = now;
    if (full) {
      sheet.clear();
      drawn = 0;
      ask(store, data.question);
      question.title = labels.answer_question;
      text.setAttribute("aria-label", labels.answer_name);
    }
    for (; drawn < shown; drawn += 1) {
      const token = generatedToken(store, drawn);
      if (!token.special) sheet.push(bytesOf(token));
      else if (data.show_special) sheet.pushName(textOf(token) ?? hex(bytesOf(token)));
    }
    sheet.finish(store.prefill !== null && (store.status !== "ended" || shown < store.generated), labels);
    setText(end, endText(now));
  };
  return { draw };
}

export default function answer(component) {
  return live.mount("answer", component, createAnswer);
}
