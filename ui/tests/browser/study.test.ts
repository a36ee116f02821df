// The page of a study in a real browser, with a made-up study: a FIXTURE, no measurement.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Cell, Study } from '../../src/study-data.ts'
import { random } from '../fixture.ts'
import { available, Browser } from './open.ts'

const CLASSES = ['private', 'read-shared', 'migratory', 'producer-consumer', 'write-shared']

function study(): Study {
  const next = random(7)
  const cells: Cell[] = []
  for (const trace of ['cg', 'mg', 'a-program-with-a-long-name'])
    for (const machine of ['butterfly', 'two-socket'])
      for (const start of ['first-touch', 'single-node'])
        for (const information of ['perfect', 'every:64+intervals:100'])
          for (const [rank, policy] of [
            'homing',
            'work-function',
            'interval-majority',
            'linux',
            'verghese',
          ].entries()) {
            const gap = next() * 10 ** (rank / 1.5)
            const classes = CLASSES.map((name, i) => ({
              class: name,
              pages: 10,
              references: 1000,
              cost: 200 + (i === 2 ? 10 * gap : 0),
              optimal_cost: 200,
            }))
            cells.push({
              trace,
              machine,
              start,
              information,
              policy,
              gap_percent: gap,
              recovered_percent: 100 - gap,
              cost: 1000 + 10 * gap,
              optimal_cost: 1000,
              classes,
            })
          }
  return { schema: 1, generator: 'fixture', parameters: [{ name: 'machines', value: 'butterfly,two-socket' }], cells }
}

let browser: Browser

describe.skipIf(!available)('the study page', () => {
  beforeAll(async () => {
    browser = await Browser.start()
  })
  afterAll(async () => {
    await browser.stop()
  })

  test('shows gaps, shares and the worst cells, and complains of nothing', async () => {
    const data = study()
    const template = readFileSync(new URL('../../dist/study.html', import.meta.url), 'utf8')
    const marker = '<script type="application/json" id="homing-report">'
    const file = join(browser.directory, 'study.html')
    writeFileSync(
      file,
      template.replace(marker, () => marker + JSON.stringify(data).replaceAll('<', '\\u003c')),
    )
    for (const width of [1280, 700]) {
      const { page, complaints } = await browser.visit(file, { width })
      await browser.shot(page, `study-${width}`)
      expect(await page.locator('[data-chart="gaps"] svg rect').count()).toBe(5 * 8)
      const worst = [...data.cells].sort((a, b) => b.gap_percent - a.gap_percent)[0]!
      expect(await page.locator('[data-chart="worst"] tbody th').first().textContent()).toContain(
        `${worst.policy}: ${worst.trace}`,
      )
      expect(await page.locator('h2').allTextContents()).toContain('Policies')
      expect(
        await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth),
      ).toBe(true)
      expect(complaints).toEqual([])
      await page.close()
    }
  })
})
