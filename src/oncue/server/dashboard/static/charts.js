// Charts: drawn from what stands in `data-chart`, and anew when that has changed.
"use strict";

(() => {
  const drawn = new WeakMap()
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  const LINES = ["--line-1", "--line-2", "--line-3", "--line-4"]
  const OWN = { succeeded: "--line-2", failed: "--line-3" }  // as the badges of these states
  const CLOCK = [[60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]]

  function draw(element) {
    const before = drawn.get(element)
    if (before?.text === element.dataset.chart && element.firstChild) return
    const told = JSON.parse(element.dataset.chart)
    const data = [told.x, ...told.series.map((one) => one.values)]
    before?.plot.destroy()
    const utc = document.documentElement.dataset.zone === "utc"
    const axis = { stroke: color("--faint"), grid: { stroke: color("--rule"), width: 1 }, ticks: { show: false }, font: "11px system-ui" }
    const amount = (value) => value == null ? "–" : `${+value.toPrecision(3)}${told.unit ? ` ${told.unit}` : ""}`
    const plot = new uPlot({
      width: element.clientWidth || 300, height: 180, tzDate: (at) => utc ? uPlot.tzDate(new Date(at * 1e3), "Etc/UTC") : new Date(at * 1e3),
      cursor: { y: false }, padding: [12, 12, 0, 0],
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
      axes: [{ ...axis, values: CLOCK }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => tick >= 1000 ? `${+(tick / 1000).toPrecision(3)}k` : +tick.toPrecision(3)) }],
      series: [{ label: "at", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" }, ...told.series.map((one, number) => ({
        label: one.label, stroke: color(OWN[one.label] ?? LINES[number % LINES.length]), width: 2, points: { show: told.x.length < 2 },
        fill: told.series.length === 1 ? `${color(LINES[0])}22` : undefined, value: (_, value) => amount(value),
      }))],
    }, data, element)
    drawn.set(element, { plot, text: element.dataset.chart })
    sizes.observe(element)
  }

  const sizes = new ResizeObserver((changes) => {
    for (const { target } of changes) {
      const plot = drawn.get(target)?.plot
      if (plot && target.clientWidth && plot.width !== target.clientWidth) plot.setSize({ width: target.clientWidth, height: 180 })
    }
  })

  function drawAll(root = document) {
    if (root.matches?.("[data-chart]")) draw(root)
    for (const element of root.querySelectorAll("[data-chart]")) draw(element)
  }

  function redraw() {
    for (const element of document.querySelectorAll("[data-chart]")) {
      const before = drawn.get(element)
      if (before) before.text = ""
    }
    drawAll()
  }

  document.addEventListener("oncue:shown", (event) => drawAll(event.detail))
  document.addEventListener("oncue:theme", redraw)
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw)
  drawAll()
})()
