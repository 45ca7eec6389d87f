// A beat for what has to be asked again and again. Unlike a fragment's own timer it keeps quiet while another page is on its way: a message
// that names the old page would call it back.

function createPulse(view) {
  let beats = 1;
  let timer = 0;
  const beat = () => {
    if (live.tell(view.component, "beat", beats)) beats += 1;
  };
  const draw = ({ data, full }) => {
    if (!full) return;
    clearInterval(timer);
    timer = setInterval(beat, data.every_s * 1000);
  };
  return { draw, leave: () => clearInterval(timer) };
}

export default function pulse(component) {
  return live.mount("pulse", component, createPulse);
}
