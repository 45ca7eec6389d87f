// Colours and canvases. Knows the page's theme; knows no run and no text.

/** Relative luminance (WCAG 2) of a CSS colour in hex or rgb() form; 1 where it cannot be read. */
function luminance(colour) {
  let parts = colour.match(/^#([0-9a-f]{3,8})$/i)?.[1];
  if (parts && parts.length < 6) parts = [...parts].map((digit) => digit + digit).join("");
  const rgb = parts ? [0, 2, 4].map((at) => parseInt(parts.slice(at, at + 2), 16)) : (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  if (rgb.length < 3) return 1;
  const [red, green, blue] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Mark the root as dark or light and read the role colours (live.css is their only home). */
function readTheme(root) {
  const style = getComputedStyle(root);
  const dark = luminance(style.getPropertyValue("--st-background-color").trim()) < 0.4;
  root.classList.toggle("ob-dark", dark);
  const of = (name) => style.getPropertyValue(name).trim();
  const roles = ["prompt", "answer", "notes", "template", "good"];
  const theme = { dark, paper: of("--st-background-color"), ink: of("--st-text-color"), muted: of("--ob-muted"), line: of("--ob-line") };
  for (const role of roles) {
    theme[role] = of(`--ob-${role}`);
    theme[`${role}Wash`] = of(`--ob-${role}-wash`);
    theme[`${role}Tint`] = of(`--ob-${role}-tint`);
  }
  theme.size = parseFloat(style.fontSize) || 16;
  theme.mono = of("--st-code-font") || "monospace";
  theme.sans = of("--st-font") || "sans-serif";
  theme.key = [dark, theme.paper, theme.ink, theme.size, theme.mono, theme.sans].join("|");
  return theme;
}

/** Size a canvas in CSS pixels for the screen's density and hand out its context, cleared. */
function sizedContext(canvas, width, height) {
  let density = Math.max(1, window.devicePixelRatio || 1);
  if (width * density > 16_000) density = 1;
  const pixels = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) [canvas.width, canvas.height] = pixels;
  const size = [`${width}px`, `${height}px`];
  if (canvas.style.width !== size[0] || canvas.style.height !== size[1]) [canvas.style.width, canvas.style.height] = size;
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** A fill of diagonal lines: waiting. */
function hatch(context, colour, ground) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  if (ground) {
    pen.fillStyle = ground;
    pen.fillRect(0, 0, 6, 6);
  }
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  for (const shift of [-6, 0, 6]) {
    pen.beginPath();
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}

/** A round step (1, 2 or 5 times a power of ten) that cuts `span` into at most `count` parts. */
function roundStep(span, count) {
  const raw = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw * 0.999);
}

/** Set an element's text only where it differs, in the text node that is there. */
function setText(node, text) {
  const only = node.firstChild;
  if (only && only === node.lastChild && only.nodeType === Node.TEXT_NODE) {
    if (only.nodeValue !== text) only.nodeValue = text;
  } else if (only || text) {
    node.textContent = text;
  }
}

function setAttribute(node, name, text) {
  if (node.getAttribute(name) !== String(text)) node.setAttribute(name, text);
}
