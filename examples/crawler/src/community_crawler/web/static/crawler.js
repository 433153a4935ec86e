// The graph, the figures that move on, and the request form. No library: the picture is a spring layout of few nodes.
"use strict";

const WIDTH = 1000, HEIGHT = 640, STEPS = 300, LABELS = 12;
const SVG = "http://www.w3.org/2000/svg";

function layout(nodes, links) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  nodes.forEach((node, i) => {  // a spiral, the biggest in the middle: the same data gives the same picture
    const angle = i * 2.4, far = 25 * Math.sqrt(i);
    node.x = WIDTH / 2 + far * Math.cos(angle);
    node.y = HEIGHT / 2 + far * Math.sin(angle);
  });
  const springs = links.map(([a, b]) => [byId.get(a), byId.get(b)]);
  for (let step = 0; step < STEPS; step++) {
    const heat = 12 * (1 - step / STEPS);
    for (const node of nodes) {
      node.dx = (WIDTH / 2 - node.x) * 0.035;
      node.dy = (HEIGHT / 2 - node.y) * 0.07;
    }
    for (let i = 0; i < nodes.length; i++) {
      for (let j = i + 1; j < nodes.length; j++) {
        const a = nodes[i], b = nodes[j];
        const dx = a.x - b.x, dy = a.y - b.y, push = 1500 / (dx * dx + dy * dy + 1);
        a.dx += dx * push / 30; a.dy += dy * push / 30;
        b.dx -= dx * push / 30; b.dy -= dy * push / 30;
      }
    }
    for (const [a, b] of springs) {
      const pull = 0.012 / Math.sqrt(1 + Math.max(a.links, b.links) / 50);
      a.dx += (b.x - a.x) * pull; a.dy += (b.y - a.y) * pull;
      b.dx -= (b.x - a.x) * pull; b.dy -= (b.y - a.y) * pull;
    }
    for (const node of nodes) {
      const length = Math.hypot(node.dx, node.dy) || 1, move = Math.min(length, heat);
      node.x = Math.min(Math.max(node.x + node.dx / length * move, 30), WIDTH - 30);
      node.y = Math.min(Math.max(node.y + node.dy / length * move, 30), HEIGHT - 30);
    }
  }
  return springs;
}

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function draw(svg, { nodes, links }) {
  nodes.sort((a, b) => b.links - a.links || a.id - b.id);
  const springs = layout(nodes, links);
  const radius = (node) => 4 + 20 * Math.sqrt(node.links / nodes[0].links);
  svg.replaceChildren(
    ...springs.map(([a, b]) => element("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y })),
    ...nodes.map((node) => {
      const circle = element("circle", { cx: node.x, cy: node.y, r: radius(node), class: node.status });
      circle.append(element("title", {}, `${node.name}: ${node.links} link to it, ${node.status}`));
      circle.addEventListener("click", () => { location.href = `/?search=${encodeURIComponent(node.name)}#table`; });
      return circle;
    }),
    ...nodes.slice(0, LABELS).map((node) => element("text", { x: node.x, y: node.y - radius(node) - 4 }, node.name)),
  );
}

async function refresh(svg) {
  const answer = await fetch("/progress").catch(() => null);
  if (!answer || !answer.ok) return;
  const progress = await answer.json();
  let changed = false;
  for (const [name, number] of Object.entries(progress)) {
    const shown = document.querySelector(`[data-figure="${name}"]`), text = number.toLocaleString("en");
    changed ||= name === "links" && shown.textContent !== text;
    shown.textContent = text;
  }
  if (changed && svg) draw(svg, await (await fetch("/graph")).json());
}

async function ask(event) {
  event.preventDefault();
  const form = event.target, output = form.querySelector("output");
  const answer = await fetch("/api/crawl", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: form.elements.name.value.trim(), priority: 60 }),  // a person waits for it
  });
  const said = await answer.json().catch(() => ({}));
  output.textContent = answer.ok
    ? said.created ? `asked for, as crawl ${said.id}` : `crawl ${said.id} is asked for already`
    : said.detail || `refused (${answer.status})`;
}

const svg = document.getElementById("graph");
const data = JSON.parse(document.getElementById("graph-data").textContent);
if (svg) draw(svg, data);
document.getElementById("request").addEventListener("submit", ask);
setInterval(() => refresh(svg), 3000);
