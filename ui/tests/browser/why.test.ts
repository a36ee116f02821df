// The diagnosis on the page: its first screen, the table of areas, what names may hold, links, print, the keyboard.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { AreaReport, Report, WhyDiff } from '../../src/report-types.ts'
import { fixture } from '../fixture.ts'
import { available, Browser, CHROMIUM, render } from './open.ts'

let browser: Browser
const rows = '[data-chart="areas"] tbody tr:not(.detail-row)'
const names = (page: Page) => page.locator(`${rows} .area-name`).allTextContents()

/** A report whose diagnosis has the areas that `change` makes of the made-up ones. */
function report(change: (areas: AreaReport[]) => AreaReport[]): Report {
  const made = fixture()
  const why = made.traces[0]!.why!
  why.areas = change(why.areas)
  return made
}

/** Many areas, by falling avoidable cost. */
function many(count: number): Report {
  return report(([first]) =>
    Array.from({ length: count }, (_, i) => {
      const { remedy: _remedy, cause: _cause, ...area } = { ...first!, name: `area_${i} (many.c:${i})` }
      return { ...area, avoidable_percent: 100 / (i + 2) }
    }),
  )
}

async function sideways(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
}

describe.skipIf(!available)('the diagnosis on the page', () => {
  beforeAll(async () => {
    browser = await Browser.start()
  })
  afterAll(async () => {
    await browser.stop()
  })

  test('shows who uses pages in an interval, by keyboard, and the whole run on paper', async () => {
    const data = fixture()
    const area = data.traces[0]!.why!.areas.find((one) => one.timeline)!
    const hash = `#area=${encodeURIComponent(area.name ?? '')}`
    for (const [name, options] of Object.entries({
      phone: { width: 390 },
      tablet: { width: 820 },
      desktop: { width: 1280 },
      dark: { width: 1280, dark: true },
    })) {
      const { page, complaints } = await browser.open(data, { ...options, hash })
      const time = page.locator('.strip-time')
      const said = time.locator('output')
      const painted = () => page.locator('.strip canvas').evaluate((one) => (one as HTMLCanvasElement).toDataURL())
      await page.locator('.strip canvas').scrollIntoViewIfNeeded()
      const whole = await painted()
      await time.locator('input').press('ArrowRight')
      expect(await said.textContent()).toBe('interval 1 of 4: references 1 to 250')
      expect(await painted()).not.toBe(whole)
      await time.locator('input').press('ArrowRight')
      await page.locator('.strip canvas').press('Home')
      const pages = await page.locator('.strip-said').textContent()
      expect(pages).toMatch(/: accessed by node 1 in this interval, resident on node/)
      await page.screenshot({ path: join(browser.shots, `timeline-${name}.png`) })
      expect(await sideways(page)).toBe(0)
      await page.evaluate(() => window.dispatchEvent(new Event('beforeprint')))
      expect(await said.textContent()).toContain('whole run')
      expect(complaints).toEqual([])
      await page.close()
    }
  })

  test('has no slider for a report without timelines', async () => {
    const data = fixture()
    const why = data.traces[0]!.why!
    delete why.timelines
    for (const area of why.areas) delete area.timeline
    const hash = `#area=${encodeURIComponent(why.areas[0]!.name ?? '')}`
    const { page, complaints } = await browser.open(data, { hash })
    expect(await page.locator('.strip canvas').count()).toBe(1)
    expect(await page.locator('.strip-time').count()).toBe(0)
    expect(complaints).toEqual([])
    await page.close()
  })

  test('has verdict, gain and the first areas on the first screen', async () => {
    const data = fixture()
    const why = data.traces[0]!.why!
    const { page, complaints } = await browser.open(data)
    const bottom = await page
      .locator(rows)
      .first()
      .evaluate((row) => row.getBoundingClientRect().bottom)
    expect(bottom).toBeLessThan(900)
    expect(await page.locator('.gain .low').textContent()).toBe('12\u202f% in the worst case')
    expect(await page.locator('.gain .high').textContent()).toBe('21\u202f% in the best case')
    expect(await page.locator('.gain .end.most').textContent()).toBe('at most 30\u202f%')
    const badges = await page.locator('.badges li').allTextContents()
    expect(badges).toEqual([
      'behind caches',
      'one copy a page',
      '4 threads, busy, on 4 nodes',
      'fixture-machine',
      'modelled',
    ])
    expect(await page.locator('.badges abbr').first().getAttribute('title')).toContain('caches first')
    expect(await names(page)).toHaveLength(why.areas.length)
    expect(complaints).toEqual([])
    await page.close()
  })

  test('keeps the gain in words within the card where both ends are at the edge', async () => {
    const data = fixture()
    data.traces[0]!.why!.gain = { low: 0, high: 1 }
    data.traces[0]!.why!.at_most = 1
    const { page } = await browser.open(data, { width: 360 })
    const outside = await page.locator('.gain').evaluate((gain) => {
      const frame = gain.getBoundingClientRect()
      return [...gain.querySelectorAll('.end')].filter((end) => {
        const box = end.getBoundingClientRect()
        return box.left < frame.left - 1 || box.right > frame.right + 1
      }).length
    })
    expect(outside).toBe(0)
    await page.close()
  })

  test('sorts, searches and opens areas by the keyboard', async () => {
    const { page, complaints } = await browser.open(fixture())
    await page.locator('[data-chart="areas"] thead button', { hasText: 'size' }).focus()
    await page.keyboard.press('Enter')
    expect(await page.locator('[data-chart="areas"] th[aria-sort="descending"]').textContent()).toBe('size')
    await page.locator('[data-chart="areas"] thead button', { hasText: 'area' }).press('Enter')
    const sorted = await names(page)
    expect(sorted).toEqual([...sorted].sort(new Intl.Collator().compare))
    await page.getByLabel('Search areas').fill('make_grid')
    expect(await page.locator('[data-chart="areas"] [aria-live]').textContent()).toBe('1 of 6')
    expect(await names(page)).toEqual(['make_grid (sor.c:42) < main (sor.c:98)'])
    await page.locator('.opener').press('Enter')
    expect(await page.locator('.opener').getAttribute('aria-expanded')).toBe('true')
    expect(await page.locator('.opener').evaluate((one) => one === document.activeElement)).toBe(true)
    expect(await page.locator('.detail .paste').textContent()).toContain('pragma omp parallel for')
    const strip = page.locator('.strip canvas')
    await strip.press('ArrowRight')
    expect(await page.locator('.strip-said').textContent()).toMatch(
      /^0x7f.*: accessed by node \d, resident on node \d, best on node \d/,
    )
    expect(new URL(page.url()).hash).toBe(`#area=${encodeURIComponent('make_grid (sor.c:42) < main (sor.c:98)')}`)
    await page.getByLabel('Search areas').fill('no such thing')
    expect(await page.locator('[data-chart="areas"] [aria-live]').textContent()).toBe('0 of 6')
    expect(complaints).toEqual([])
    await page.close()
  })

  test('opens the area and the section that the address names', async () => {
    const hash = `#area=${encodeURIComponent('area_777 (many.c:777)')}`
    const { page } = await browser.open(many(1000), { hash })
    expect(await page.locator('tr.open .area-name').textContent()).toBe('area_777 (many.c:777)')
    expect(await page.locator('tr.open').evaluate((row) => row.getBoundingClientRect().top)).toBeLessThan(900)
    await page.locator('.contents a', { hasText: 'Traffic' }).click()
    await page.waitForFunction(() => document.querySelector('.contents [aria-current]')?.textContent === 'Traffic')
    await page.close()
    const several = await browser.open(fixture({ traces: 3 }), { hash: '#t3-traffic' })
    expect(await several.page.locator('[role="tabpanel"]').nth(2).isVisible()).toBe(true)
    const links = several.page.locator('.contents a')
    expect(await links.first().getAttribute('href')).toBe('#t3-areas')
    await several.page.close()
  })

  test('shows a hundred thousand areas page by page', async () => {
    const { page, complaints } = await browser.open(many(100_000))
    expect(await page.locator(rows).count()).toBe(20)
    await page.locator('.pager button', { hasText: 'Last' }).click()
    expect((await names(page)).at(-1)).toBe('area_99999 (many.c:99999)')
    await page.getByLabel('Search areas').fill('area_4242 (')
    expect(await page.locator('[data-chart="areas"] [aria-live]').textContent()).toBe('1 of 100\u202f000')
    expect(complaints).toEqual([])
    await page.close()
  })

  test('takes names of any kind for text', async () => {
    const hostile = [
      '<img src=x onerror="window.hit=1"><script>window.hit=1</script>',
      'ab\u202edcba\u0000\u001b[31m\n\u200bx',
      `f (${'very-long-name-'.repeat(2000)}.c:1)`,
      '=HYPERLINK("http://x")',
      '名前 😀 naïve',
    ]
    const data = report((areas) => hostile.map((name, i) => ({ ...areas[i]!, name })))
    for (const width of [1280, 360]) {
      const { page, complaints } = await browser.open(data, { width })
      const shown = (await names(page)).join('|')
      expect(shown).toContain('<img src=x onerror')
      expect(shown).toContain('ab\\u202edcba\\u0000\\u001b[31m\\u000a\\u200bx')
      for (const opener of await page.locator('.opener').all()) {
        await opener.click()
        expect(await sideways(page)).toBe(0)
      }
      expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined()
      expect(complaints).toEqual([])
      await page.close()
    }
  })

  test('shows fields that it does not know', async () => {
    const later = {
      stacks: [{ line: 3, share: 0.5 }],
      advice: ['Pad it to 64 bytes.', '<b>'],
      caller: 'main\u202e',
      empty: null,
    }
    const data = report((areas) => areas.map((area) => ({ ...area, ...later })))
    const { page, complaints } = await browser.open(data)
    await page.locator('.opener').first().click()
    const text = await page.locator('.extras').innerText()
    expect(text).toContain('Pad it to 64 bytes.\n<b>')
    expect(text).toContain('[{"line":3,"share":0.5}]')
    expect(text).toContain('main\\u202e')
    expect(text).not.toContain('null')
    expect(complaints).toEqual([])
    await page.close()
  })

  test('shows remedies to paste and lines that travel', async () => {
    const paste = [
      { form: 'words' as const, text: 'Pad the counters.' },
      { form: 'c' as const, text: 'struct alignas(64) part { /* <b> */ };' },
    ]
    const lines = { falsely: 12_000, truly: 3, worst: [{ offset: 128, nodes: 2, falsely: 7000, truly: 1 }] }
    const data = report((areas) =>
      areas.map((area) => ({
        ...area,
        lines,
        falsely_shared_percent: 40,
        ...(area.remedy ? { remedy: { ...area.remedy, paste } } : {}),
      })),
    )
    const { page, complaints } = await browser.open(data, { width: 360 })
    await page.locator('.opener').first().click()
    expect(await page.locator('.detail .paste p').textContent()).toBe('Pad the counters.')
    expect(await page.locator('.detail .snippet pre').textContent()).toBe(paste[1]!.text)
    expect(await page.locator('.travelling').innerText()).toContain('12\u202f000 times with nothing new')
    expect(await page.locator('.travelling tbody th').textContent()).toBe('128')
    expect(await page.locator('.extras').count()).toBe(0)
    expect(await sideways(page)).toBe(0)
    expect(complaints).toEqual([])
    await page.close()
  })

  test('saves each table as CSV', async () => {
    const { page } = await browser.open(fixture())
    const buttons = page.locator('button.csv')
    expect(await buttons.count()).toBeGreaterThan(6)
    const [download] = await Promise.all([page.waitForEvent('download'), buttons.first().click()])
    expect(download.suggestedFilename()).toMatch(/^areas-of-data.*\.csv$/)
    const text = readFileSync((await download.path())!, 'utf8').split('\r\n')
    expect(text[0]).toBe('area,size,avoidable,accessed by,resident on,best on,what to do,saves')
    expect(text).toHaveLength(6 + 2)
    await page.close()
  })

  test('explains its words to fingers and keys, and leads past the contents', async () => {
    const { page } = await browser.open(fixture(), { width: 360 })
    await page.keyboard.press('Tab')
    expect(await page.evaluate(() => document.activeElement!.textContent)).toBe('Skip to the content')
    await page.locator('.badges abbr').first().click()
    expect(await page.locator('.meaning').textContent()).toContain('caches first')
    expect(await page.locator('.meaning').isVisible()).toBe(true)
    expect(await sideways(page)).toBe(0)
    await page.close()
  })

  test('goes on four sheets of paper', async () => {
    const { page } = await browser.open(fixture())
    await page.emulateMedia({ media: 'print' })
    const pdf = await page.pdf({ format: 'A4', margin: { top: '12mm', bottom: '12mm', left: '12mm', right: '12mm' } })
    const sheets = pdf.toString('latin1').match(/\/Type\s*\/Page\b/g)!.length
    expect(sheets).toBeLessThanOrEqual(4)
    await page.close()
  })

  test('says so where scripts do not run', async () => {
    const other = await chromium.launch({
      executablePath: CHROMIUM,
      args: ['--headless', '--no-sandbox', '--disable-gpu'],
    })
    const context = await other.newContext({ javaScriptEnabled: false })
    const page = await context.newPage()
    const file = join(browser.directory, 'plain.html')
    writeFileSync(file, render(fixture()))
    await page.goto(`file://${file}`)
    expect(await page.locator('noscript').innerText()).toContain('needs JavaScript')
    await other.close()
  })

  test('a difference shows both verdicts, what differs, and the areas', async () => {
    const diff = difference()
    for (const width of [1280, 360]) {
      const { page, complaints } = await browser.open(diff, { built: 'diff.html', width })
      expect(await page.locator('.headline').textContent()).toBe(diff.sentence)
      expect(await page.locator('.differs li').allTextContents()).toEqual(diff.differs)
      expect(await page.locator('.verdict .sentence').allTextContents()).toEqual(['Was so.', 'Is so.'])
      expect(await page.locator('[data-chart="changes"] .area-name').allTextContents()).toEqual([
        'f (a.c:9)',
        'gone\\u202e',
      ])
      await page.locator('.opener').first().click()
      expect(await page.locator('.full-name').textContent()).toContain('before: f (a.c:7)')
      expect(await page.locator('body').innerText()).not.toMatch(/NaN|undefined|Infinity/)
      expect(await sideways(page)).toBe(0)
      expect(complaints).toEqual([])
      await browser.shot(page, `diff-${width}`)
      await page.close()
    }
    const empty = await browser.open('', { built: 'diff.html' })
    expect(await empty.page.getByRole('alert').textContent()).toContain('empty template')
    await empty.page.close()
  })
})

function difference(): WhyDiff {
  const { trace, why } = fixture().traces[0]!
  const side = (sentence: string) => ({
    verdict: why!.verdict,
    words: why!.words,
    sentence,
    basis: 'Made up.',
    at_most: 0.1,
    gain_is_of: 'modelled time',
    trace,
    machine: why!.machine,
  })
  const area = (cost: number) => ({ bytes: 4096, references: 10, cost, avoidable_cost: 1 })
  const change = (before: number, after: number) => ({ before, after })
  return {
    schema: 1,
    generator: 'fixture',
    sentence: 'Still initialised by one thread; the modelled time is 25 % less.',
    differs: ['threads: 4 before, 8 after'],
    before: side('Was so.'),
    after: side('Is so.'),
    seconds: change(4, 3),
    cost: change(100, 0),
    avoidable_cost: change(0, 1),
    nonlocal_percent: change(50, 50),
    imbalance: change(2, 1),
    joined: { by_name: 0, by_function: 1, only_before: 1, only_after: 0 },
    areas: [
      { name: 'f (a.c:9)', name_before: 'f (a.c:7)', before: area(90), after: area(0), change: -90 },
      { name: 'gone\u202e', before: area(10), change: -10 },
    ],
  }
}
