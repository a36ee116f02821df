// How fast the report page opens and scrolls with a large report, in headless Chromium: a table for
// docs/benchmarks.md. The report is made up and measures nothing.
//
//     node benches/report-page.mjs            (needs `make ui` once, for ui/node_modules, and Chromium)
//
// PAGES, SHOWN and AREAS (lists by commas) change the sizes: pages of the trace, those that the page map holds, areas.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = new URL('..', import.meta.url).pathname
const { chromium } = createRequire(join(root, 'ui/package.json'))('playwright-core')
const MARKER = '<script type="application/json" id="homing-report">'
const NODES = 4

const sum = (counts) => counts.reduce((a, b) => a + b, 0)

/** Numbers that look random, from a seed. */
function random(seed) {
  let state = seed
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 4294967296
}

function area(index, pages, next) {
  const references = Math.floor(1e6 * next())
  const spread = [pages, 0, 0, 0]
  const cost = {
    now: references * (2 + 4 * next()),
    best_static: references * 1.5,
    spread: references * 2,
    bound: references,
  }
  return {
    name: `allocate_${index % 97} (file_${index % 31}.c:${index}) < solve_${index % 7} (main.c:${index % 1000}) < main (main.c:9)`,
    pages,
    bytes: pages * 4096,
    references,
    writes: Math.floor(references / 3),
    references_by_node: [1, 2, 3, 4].map((part) => Math.floor((references * part) / 10)),
    pages_made_by_node: spread,
    pages_on_node: spread,
    pages_best_on_node: [0, 1, 2, 3].map((node) => Math.floor((pages + node) / NODES)),
    class: 'write-shared',
    sharing: [{ class: 'write-shared', references }],
    cost,
    avoidable_percent: 0,
    ...(index < 64
      ? {
          cause: 'initialised-by-one-thread',
          remedy: { remedy: 'initialise-by-user', cost: references, saves: 0.002, time_ratio: 0.998 },
        }
      : {}),
  }
}

function pageMap(pages, shown, areas, next) {
  const column = (make) => Array.from({ length: shown }, (_, page) => make(page))
  const node = () => Math.floor(NODES * next())
  return {
    pages,
    shown,
    vaddr: column((page) => `0x${(0x7f0000000000 + page * 4096).toString(16)}`),
    references: column(() => Math.floor(1000 * next())),
    class: column(() => 4),
    initial: column(() => 0),
    most_frequent: column(node),
    last: column(node),
    policy: 'homing',
    optimal: column(node),
    by_node: column(() => [1, 2, 3, 4].map(() => Math.floor(1000 * next()))),
    areas: areas.map((one) => one.name),
    area: column((page) => Math.floor((page * areas.length) / shown)),
  }
}

function row(policy, cost) {
  const references = 1e9
  const [remote, seconds] = [references / 3, 1]
  return {
    policy,
    machine: 'made-up',
    references,
    cost,
    mcpr: cost / references,
    local: references - remote,
    remote,
    global: 0,
    moves: 0,
    replications: 0,
    nonlocal_percent: 33,
    optimal_cost: 2e9,
    gap_percent: (100 * (cost - 2e9)) / 2e9,
    pages: 1,
    seconds,
    copy_cost: 0,
    moves_per_page: 0,
  }
}

function report(pages, shown, count) {
  const next = random(7)
  const areas = Array.from({ length: count }, (_, i) => area(i, Math.max(1, Math.floor(pages / count)), next))
  const avoidable = (one) => one.cost.now - one.cost.bound
  const all = sum(areas.map(avoidable))
  for (const one of areas) one.avoidable_percent = (100 * avoidable(one)) / all
  areas.sort((a, b) => avoidable(b) - avoidable(a))
  const machine = {
    name: 'made-up',
    description: 'A made-up machine.',
    memories: NODES,
    page_size: 4096,
    remote: 2,
    page_move: 1000,
  }
  const trace = {
    name: 'made-up',
    digest: '0',
    command: ['made-up'],
    recorder: 'none',
    references: 1e9,
    reads: 6e8,
    writes: 4e8,
    threads: NODES,
    pages,
    complete: true,
  }
  const traffic = { by_node: Array.from({ length: NODES }, () => [4, 3, 2, 1]), nonlocal_percent: 75, imbalance: 1.6 }
  const why = {
    schema: 1,
    generator: 'made up',
    verdict: 'initialised-by-one-thread',
    words: 'initialised by one thread',
    sentence: 'Made up: this report measures the page.',
    basis: 'Made up.',
    gain: { low: 0.1, high: 0.2 },
    at_most: 0.3,
    gain_is_of: 'modelled time',
    behind_caches: true,
    replication: false,
    threads_on: 'busy',
    nodes_in_use: NODES,
    machine,
    trace,
    parameters: [],
    cost: { now: 6e9, with_remedies: 3e9, bound: 2e9 },
    traffic: { now: traffic, with_remedies: traffic },
    one_remedy_for_all: [],
    areas,
    areas_untried: Math.max(0, count - 64),
    notes: [],
  }
  const rows = [row('optimal', 2e9), row('first-touch', 6e9), row('striped', 5e9), row('homing', 2.2e9)]
  const sharing = [
    {
      class: 'write-shared',
      pages,
      references: 1e9,
      reads: 6e8,
      writes: 4e8,
      references_percent: 100,
      optimal_cost: 2e9,
      first_touch_cost: 6e9,
    },
  ]
  const one = {
    trace,
    summary: 'Made up.',
    rows,
    sharing,
    page_map: pageMap(pages, shown, areas, next),
    why,
    curves: [],
    perturbation: [],
  }
  return { schema: 1, generator: 'made up', machine, parameters: [], traces: [one], means: [], notes: [] }
}

/** Opens the page and scrolls through it; milliseconds and frames. */
async function measure(browser, file) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  await page.goto(`file://${file}`, { timeout: 120_000 })
  await page.waitForSelector('html[data-ready]', { timeout: 120_000 })
  const opened = await page.evaluate(() => {
    const at = (name) => performance.getEntriesByName(name)[0].startTime
    return { read: at('homing-read'), built: at('homing-built') }
  })
  const scrolled = await page.evaluate(scroll)
  const timed = async (work) => {
    const begin = performance.now()
    await work()
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
    return performance.now() - begin
  }
  const sort = await timed(() => page.locator('[data-chart="areas"] thead button').first().click())
  const search = await timed(() => page.getByLabel('Search areas').fill('allocate_7 '))
  const open = await timed(() => page.locator('.opener').first().click())
  await page.close()
  return { ...opened, ...scrolled, sort, search, open }
}

/** Scrolls the first time through (which draws what comes to sight), then back; intervals between frames. */
async function scroll() {
  const frame = () => new Promise((done) => requestAnimationFrame(done))
  const pass = async (by) => {
    const times = []
    let before = await frame()
    for (let i = 0; i < 240; i += 1) {
      window.scrollBy(0, by)
      const now = await frame()
      times.push(now - before)
      before = now
    }
    times.sort((a, b) => a - b)
    return { median: times[120], worst: times.at(-1), late: times.filter((time) => time > 25).length }
  }
  const [first, again] = [await pass(40), await pass(-40)]
  return { first, again }
}

const list = (name, otherwise) => (process.env[name] ?? otherwise).split(',').map(Number)
const cases = list('PAGES', '1000000,1000000').map((pages, i) => ({
  pages,
  shown: list('SHOWN', '65536,1000000')[i] ?? pages,
  areas: list('AREAS', '10000,10000')[i] ?? 10_000,
}))
const template = readFileSync(join(root, 'crates/homing-cli/assets/report.html'), 'utf8')
const directory = mkdtempSync(join(tmpdir(), 'homing-page-'))
const browser = await chromium.launch({
  executablePath: process.env.HOMING_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu'],
})
console.log(
  '| pages | in the map | areas | MB | opens, ms | of it reading | frames, ms: median | worst, drawing | frames over 25 ms, of 480 | sort | search | open a row |',
)
console.log('|---|---|---|---|---|---|---|---|---|---|---|---|')
for (const { pages, shown, areas } of cases) {
  const file = join(directory, 'report.html')
  const at = template.indexOf(MARKER) + MARKER.length
  const json = JSON.stringify(report(pages, shown, areas)).replaceAll('<', '\\u003c')
  writeFileSync(file, template.slice(0, at) + json + template.slice(at))
  const size = statSync(file).size / 1e6
  const runs = []
  for (let i = 0; i < 3; i += 1) runs.push(await measure(browser, file))
  const median = (of) => runs.map(of).sort((a, b) => a - b)[1]
  const cells = [
    pages,
    shown,
    areas,
    size.toFixed(1),
    Math.round(median((run) => run.built)),
    Math.round(median((run) => run.read)),
    median((run) => run.again.median).toFixed(1),
    Math.round(median((run) => run.first.worst)),
    median((run) => run.first.late + run.again.late),
    Math.round(median((run) => run.sort)),
    Math.round(median((run) => run.search)),
    Math.round(median((run) => run.open)),
  ]
  console.log(`| ${cells.join(' | ')} |`)
}
await browser.close()
rmSync(directory, { recursive: true, force: true })
