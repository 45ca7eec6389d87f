"""What a visitor could use on a page, read in the browser, and what must never be seen there. Knows roles, places (st-key-…) and the page's
own store of runs; does not know what any control is for.
"""

# Everything on the page that can be used, through shadow roots, as [kind, place, name]; the elements themselves stay in window.controls.
SURVEY = """(bounds) => {
  const wanted = 'a[href],button,canvas,input,label,summary,textarea,[role=slider],[role=option],[role=radio],[role=tab],[tabindex="0"]';
  const up = (node) => node.parentElement ?? node.getRootNode().host ?? null;
  const placeOf = (node) => {
    for (let at = node; at; at = up(at)) for (const name of at.classList) if (name.startsWith('st-key-')) return name.slice(7);
    return '';
  };
  const names = { A: 'link', INPUT: 'textbox', TEXTAREA: 'textbox' };
  const kindOf = (node) => {
    const input = node.matches('label') ? node.querySelector('input') : node;
    const type = input?.getAttribute('type');
    const types = { range: 'slider', checkbox: 'switch', radio: 'radio', number: 'spinbutton', file: '' };
    if (node.matches('label') && !(type in types)) return '';
    return node.getAttribute('role') ?? types[type] ?? names[node.tagName] ?? node.tagName.toLowerCase();
  };
  const usable = (node) => {
    const box = node.getBoundingClientRect();
    if (box.width < 3 || box.height < 3 || !node.checkVisibility({ visibilityProperty: true })) return false;
    if (node.disabled || node.getAttribute('aria-disabled') === 'true') return false;
    if (node.closest('[data-testid="stToolbar"], [data-testid="stMainMenu"]')) return false; // Streamlit's own
    return !node.matches('a') || (node.origin === location.origin && node.target !== '_blank');
  };
  const found = [];
  const walk = (root) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.shadowRoot) walk(node.shadowRoot);
      if (node.matches(wanted) && usable(node)) found.push(node);
    }
  };
  walk(document);
  const told = (node) => [kindOf(node), placeOf(node), (node.getAttribute('aria-label') || node.innerText || '').slice(0, 40)];
  const allowed = ([, [kind, place]]) => kind && kind !== 'main' && !bounds.some((key) => place.startsWith(key));
  const kept = found.map((node) => [node, told(node)]).filter(allowed);
  window.controls = kept.map(([node]) => node);
  return kept.map(([, words]) => words);
}"""
# Where control number `at` stands, once it is in sight; null where it has gone.
REACH = """(at) => {
  const node = window.controls?.[at];
  if (!node?.isConnected) return null;
  node.scrollIntoView({ block: 'center' });
  const { x, y, width, height } = node.getBoundingClientRect();
  return [x, y, width, height];
}"""
# Whether what has the focus is out of bounds.
AT_BOUNDS = "(bounds) => bounds.some((key) => document.activeElement?.closest(`[class*='st-key-${key}']`))"
# What must never be seen: an exception, and a run in which a step is missing, doubled, or not in the cache.
FAULTS = """() => {
  const said = [...document.querySelectorAll('[data-testid="stException"]')].map((box) => `exception: ${box.innerText}`);
  for (const [id, run] of Object.entries(window.__openbook?.runs ?? {})) {
    if (![null, 'queued', 'running', 'paused', 'ended'].includes(run.status)) said.push(`${id}: status ${run.status}`);
    if (!run.prefill) continue;
    const prompt = run.tokens.length;
    const written = [run.prefill.first, ...run.steps.map((step) => step.token)];
    const of = (name) => run.steps.map((step) => step[name]);
    if (run.prefill.kv_tokens !== prompt) said.push(`${id}: ${run.prefill.kv_tokens} notes of ${prompt} prompt tokens`);
    if (of('index').some((index, at) => index !== at + 1)) said.push(`${id}: steps ${of('index')}`);
    if (of('kv_tokens').some((tokens, at) => tokens !== prompt + at + 1)) said.push(`${id}: notes ${of('kv_tokens')}`);
    const places = written.map((token) => token.position);
    if (places.some((place, at) => place !== prompt + at)) said.push(`${id}: positions ${places}`);
  }
  return said;
}"""
# Whether the run of the URL, if there is one, has ended, or at least come to rest; and what the page knows of it then.
RUN = "window.__openbook?.runs[new URLSearchParams(location.search).get('run')]"
OVER = f"() => !new URLSearchParams(location.search).get('run') || {RUN}?.status === 'ended'"
STILL = f"() => !new URLSearchParams(location.search).get('run') || ['paused', 'ended'].includes({RUN}?.status)"
TOLD = f"""() => {{
  const run = {RUN};
  const written = run?.prefill ? [run.prefill.first, ...run.steps.map((step) => step.token)].map((token) => token.id) : [];
  return run ? [run.status, run.stop_reason, run.tokens.length, written] : null;
}}"""
