// The page in a real browser: numbers are read off it, nothing complains, nothing reaches for the network.

import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Report } from '../../src/report.ts'
import { fixture } from '../fixture.ts'
import golden from '../golden.json'
import { available, Browser } from './open.ts'

let browser: Browser
const chart = (name: string) => `[data-chart="${name}"]`

/** The numbers of a table's column, by its first cell. */
async function column(page: Page, name: string, title: string): Promise<Record<string, number>> {
  const details = page.locator(`${chart(name)} details:has-text("The numbers as a table")`)
  if ((await details.count()) > 0) await details.first().evaluate((one) => ((one as HTMLDetailsElement).open = true))
  await page
    .locator(`${chart(name)} table`)
    .first()
    .waitFor({ state: 'attached' })
  return page
    .locator(`${chart(name)} table`)
    .first()
    .evaluate((table, title) => {
      const heads = [...table.querySelectorAll('thead th')].map((head) => head.textContent)
      const at = heads.indexOf(title)
      return Object.fromEntries(
        [...table.querySelectorAll('tbody tr')].map((row) => [
          row.children[0]!.textContent!,
          Number((row.children[at] as HTMLElement).dataset.value),
        ]),
      )
    }, title)
}

/** Scrolls through the page, so that all of it is drawn. */
async function drawAll(page: Page): Promise<void> {
  await page.evaluate(async () => {
    for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
      scrollTo(0, y)
      await new Promise((done) => setTimeout(done, 20))
    }
    scrollTo(0, 0)
  })
}

/** What sticks out of the window, or of its own drawing. */
async function overflow(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const found: string[] = []
    if (document.documentElement.scrollWidth > document.documentElement.clientWidth)
      found.push(`page is ${document.documentElement.scrollWidth} px wide`)
    for (const svg of document.querySelectorAll('.plot svg')) {
      const frame = svg.getBoundingClientRect()
      for (const text of svg.querySelectorAll('text')) {
        const box = text.getBoundingClientRect()
        if (
          box.width > 0 &&
          (box.left < frame.left - 1 ||
            box.right > frame.right + 1 ||
            box.top < frame.top - 1 ||
            box.bottom > frame.bottom + 1)
        )
          found.push(`text sticks out of its chart: ${text.textContent}`)
      }
    }
    return found
  })
}

describe.skipIf(!available)('the report page', () => {
  beforeAll(async () => {
    browser = await Browser.start()
  })
  afterAll(async () => {
    await browser.stop()
  })

  test('is one small file', () => {
    const size = statSync(new URL('../../dist/report.html', import.meta.url)).size
    expect(size).toBeLessThan(1_000_000)
  })

  test('shows what the report says', async () => {
    const report = fixture()
    const { page, complaints } = await browser.open(report)
    const trace = report.traces[0]!
    expect(await page.locator('.verdict .sentence').textContent()).toBe(trace.why!.sentence)
    expect(await page.locator('.summary .sentence').textContent()).toBe(trace.summary)
    await drawAll(page)
    expect(await page.locator('h1').textContent()).toBe(`sor-cols -n 512 --label 'a <b> "c"' on fixture-machine`)
    expect(await page.locator('.gaps').textContent()).toMatch(
      /^In total, first-touch costs .* more than the best placement, homing .* more\.$/,
    )
    const bars = await column(page, 'mcpr', 'MCPR')
    expect(bars).toEqual(Object.fromEntries(trace.rows.map((row) => [row.policy, row.mcpr])))
    const drawn = page.locator(`${chart('mcpr')} g[aria-label="bar"] rect`)
    expect(await drawn.count()).toBe(3)
    await page.locator(`${chart('mcpr')} .unfold`).click()
    expect(await drawn.count()).toBe(trace.rows.length - 1)
    const split = await column(page, 'split', 'page copies')
    for (const row of trace.rows) expect(split[row.policy]! * row.references).toBeCloseTo(row.copy_cost, 1)
    expect(await column(page, 'sharing', 'Pages')).toEqual(
      Object.fromEntries(trace.sharing.map((row) => [row.class, row.pages])),
    )
    expect(await page.locator(`${chart('perturbation')} tbody tr`).count()).toBe(2)
    expect(await page.locator('.origin').textContent()).toContain(trace.trace.digest)
    expect(await overflow(page)).toEqual([])
    expect(complaints).toEqual([])
    await browser.shot(page, 'light')
    await page.close()
  })

  test('is readable in the dark, on a phone and on paper', async () => {
    const dark = await browser.open(fixture(), { dark: true })
    expect(await dark.page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)).toBe(
      'rgb(20, 23, 28)',
    )
    await browser.shot(dark.page, 'dark')
    await dark.page.pdf({
      path: join(browser.shots, 'print.pdf'),
      format: 'A4',
      margin: { top: '12mm', bottom: '12mm', left: '12mm', right: '12mm' },
    })
    expect(readFileSync(join(browser.shots, 'print.pdf')).length).toBeGreaterThan(20_000)
    const phone = await browser.open(fixture(), { width: 360 })
    await drawAll(phone.page)
    expect(await overflow(phone.page)).toEqual([])
    await browser.shot(phone.page, 'phone')
    expect([...dark.complaints, ...phone.complaints]).toEqual([])
    await dark.page.close()
    await phone.page.close()
  })

  test('sorts the table', async () => {
    const { page } = await browser.open(fixture())
    const names = () => page.locator(`${chart('table')} tbody th`).allTextContents()
    const before = await names()
    await page.locator(`${chart('table')} thead button`, { hasText: 'MCPR' }).focus()
    await page.keyboard.press('Enter')
    const values = await column(page, 'table', 'MCPR')
    const sorted = await names()
    expect(sorted.map((name) => values[name])).toEqual([...Object.values(values)].sort((a, b) => a - b))
    expect(await page.locator(`${chart('table')} th[aria-sort="ascending"]`).textContent()).toBe('MCPR')
    await page.keyboard.press('Enter')
    expect(await names()).not.toEqual(sorted)
    expect([...(await names())].sort()).toEqual([...before].sort())
    await page.close()
  })

  test('maps pages to nodes, and tells of each', async () => {
    const report = fixture()
    const { page_map: map } = report.traces[0]!
    const { page } = await browser.open(report)
    const first = page.locator('canvas[data-map="first"]')
    const final = page.locator('canvas[data-map="final"]')
    await page.locator(chart('page-map')).scrollIntoViewIfNeeded()
    await page.locator('canvas[data-map="first"][data-cells]').waitFor()
    expect(await first.getAttribute('data-cells')).toBe(String(map.pages))
    const at0 = map.initial.filter((node) => node === 0).length
    expect(await first.getAttribute('aria-label')).toContain(
      `node 0 ${String(at0).replace(/\B(?=(\d{3})+$)/g, '\u202f')},`,
    )
    const counts = await column(page, 'page-map', 'first touch')
    expect(counts['node 0']).toBe(at0)
    expect(Object.values(await column(page, 'page-map', 'homing')).reduce((a, b) => a + b)).toBe(map.pages)

    const before = await final.getAttribute('aria-label')
    await page.getByRole('radio', { name: 'the optimum' }).check()
    expect(await final.getAttribute('aria-label')).not.toBe(before)

    await first.focus()
    await page.keyboard.press('ArrowRight')
    const tip = page.locator(`${chart('page-map')} .tip`)
    expect(await tip.textContent()).toContain(`${map.vaddr[0]}, grid`)
    expect(await tip.textContent()).toContain('first touch: node 0')
    await page.keyboard.press('ArrowRight')
    expect(await tip.textContent()).toContain(map.vaddr[1])
    expect(await page.locator(`${chart('page-map')} [aria-live]`).textContent()).toContain(map.vaddr[1])
    await page.keyboard.press('Escape')
    expect(await tip.isVisible()).toBe(false)

    await first.hover({ position: { x: 5, y: 24 } })
    expect(await tip.textContent()).toContain(map.vaddr[0])
    const colour = await pixel(page, 'first', 1, 21)
    expect(colour).toBe('#0072b2')
    await page.getByRole('button', { name: '1', exact: true }).click()
    expect(await pixel(page, 'first', 1, 21)).not.toBe('#0072b2')
    await page.close()
  })

  test('tells of a bar under the mouse', async () => {
    const report = fixture()
    const { page } = await browser.open(report)
    await page.locator(chart('mcpr')).scrollIntoViewIfNeeded()
    await page
      .locator(`${chart('mcpr')} g[aria-label="bar"] rect`)
      .first()
      .hover()
    const row = report.traces[0]!.rows.find((one) => one.policy === 'homing')!
    expect(await page.locator(`${chart('mcpr')} g[aria-label="tip"]`).textContent()).toContain(
      `MCPR ${row.mcpr.toFixed(3)}`,
    )
    await page.close()
  })

  test('hides and shows lines', async () => {
    const { page } = await browser.open(fixture())
    await page.locator(chart('curve-page-move')).scrollIntoViewIfNeeded()
    await page
      .locator(`${chart('curve-page-move')} .plot svg`)
      .first()
      .waitFor()
    const lines = page.locator(`${chart('curve-page-move')} g[aria-label="line"] path`)
    const before = await lines.count()
    expect(before).toBeGreaterThan(3)
    await page.locator(`${chart('curve-page-move')} .toggles button`, { hasText: 'first-touch' }).click()
    expect(await lines.count()).toBe(before - 1)
    await page.close()
  })

  test('holds several traces behind tabs, and prints all', async () => {
    const report = fixture({ traces: 3, global: true })
    const { page, complaints } = await browser.open(report)
    const panels = page.locator('[role="tabpanel"]')
    expect(await panels.count()).toBe(3)
    expect(await page.locator('[role="tabpanel"]:visible').count()).toBe(1)
    await page.getByRole('tab').first().focus()
    await page.keyboard.press('ArrowRight')
    expect(await panels.nth(1).isVisible()).toBe(true)
    expect(await panels.nth(1).locator('.warning').isVisible()).toBe(true)
    expect(Object.keys(await column(page, 'means', 'Worst gap'))).toContain('homing')
    expect(Object.keys(await column(page, 'overview', 'Pages'))).toEqual(report.traces.map(({ trace }) => trace.name))
    await browser.shot(page, 'several')
    await page.emulateMedia({ media: 'print' })
    expect(await page.locator('[role="tabpanel"]:visible').count()).toBe(3)
    expect(complaints).toEqual([])
    await page.close()
  })

  const edges: Record<string, Report> = {
    'one-policy': fixture({ policies: ['first-touch'] }),
    'no-policy': fixture({ policies: [] }),
    'many-policies': fixture({
      traces: 2,
      pages: 200,
      policies: [...Array.from({ length: 198 }, (_, i) => `policy-with-a-long-name-${i}`), 'first-touch', 'homing'],
    }),
    'no-pages': fixture({ pages: 0 }),
    'no-trace': fixture({ traces: 0 }),
    'one-node': fixture({ nodes: 1 }),
    'many-nodes': fixture({ nodes: 64, general: true, bare: true }),
    'gap-0': fixture({ flat: true }),
    'no-diagnosis': fixture({ noWhy: true }),
    huge: fixture({ scale: 1e12 }),
    bare: fixture({ bare: true, global: true }),
    real: golden as unknown as Report,
  }
  for (const [name, report] of Object.entries(edges)) {
    test(`copes with ${name}`, async () => {
      const { page, complaints } = await browser.open(report)
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 900 })
        await drawAll(page)
        await page.waitForFunction(() =>
          [...document.querySelectorAll('.plot svg')].every(
            (svg) => !svg.checkVisibility() || svg.clientWidth <= window.innerWidth,
          ),
        )
        await page.waitForTimeout(150)
        expect(complaints).toEqual([])
        expect(await overflow(page)).toEqual([])
        expect(await page.locator('body').innerText()).not.toMatch(/NaN|undefined|Infinity/)
        if (browser.kept) await browser.shot(page, `${name}-${width}`)
      }
      await page.close()
    })
  }

  test('draws a map of 120 000 pages quickly', async () => {
    const report = fixture({ pages: 120_000, bare: true })
    const started = performance.now()
    const { page, complaints } = await browser.open(report)
    await page.locator(chart('page-map')).scrollIntoViewIfNeeded()
    await page.locator('canvas[data-map="final"][data-cells="120000"]').waitFor()
    expect(performance.now() - started).toBeLessThan(30_000)
    expect(complaints).toEqual([])
    await browser.shot(page, 'large')
    await page.close()
  })

  test('says what is wrong with data that it cannot show', async () => {
    for (const [data, words] of [
      ['', 'empty template'],
      ['{"schema":', 'damaged'],
      ['{"schema":99,"traces":[]}', 'schema 99'],
    ] as const) {
      const { page, complaints } = await browser.open(data)
      expect(await page.getByRole('alert').textContent()).toContain(words)
      expect(complaints).toEqual([])
      await page.close()
    }
  })
})

/** The colour of a pixel of a map, in CSS pixels of its canvas. */
async function pixel(page: Page, map: string, x: number, y: number): Promise<string> {
  return page.locator(`canvas[data-map="${map}"]`).evaluate(
    (element, [x, y]) => {
      const canvas = element as HTMLCanvasElement
      const scale = canvas.width / canvas.clientWidth
      const data = canvas.getContext('2d')!.getImageData(x! * scale, y! * scale, 1, 1).data
      return `#${[...data.slice(0, 3)].map((value) => value.toString(16).padStart(2, '0')).join('')}`
    },
    [x, y],
  )
}
