// Opens a report in Debian's Chromium and keeps a list of everything that a quiet page would not do.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type BrowserContext, type Page } from 'playwright-core'

/** Where the browser is; the variable HOMING_CHROMIUM names another. */
export const CHROMIUM = process.env.HOMING_CHROMIUM ?? '/usr/bin/chromium'
export const available = existsSync(CHROMIUM)

const MARKER = '<script type="application/json" id="homing-report">'

/** A built page with data inside, as the program writes it. */
export function render(report: object | string, built = 'report.html'): string {
  const template = readFileSync(new URL(`../../dist/${built}`, import.meta.url), 'utf8')
  const json = typeof report === 'string' ? report : JSON.stringify(report).replaceAll('<', '\\u003c')
  const at = template.indexOf(MARKER)
  if (at < 0 || template.indexOf(MARKER, at + 1) >= 0) throw new Error('the template must have the marker exactly once')
  return template.slice(0, at + MARKER.length) + json + template.slice(at + MARKER.length)
}

/** How a page is opened. */
export interface Options {
  width?: number
  dark?: boolean
  /** The built page, if it is not that of the report. */
  built?: string
  /** What stands behind `#` in its address. */
  hash?: string
}

/** A browser with a fresh profile, and the temporary directory of this test run. */
export class Browser {
  readonly directory = mkdtempSync(join(tmpdir(), 'homing-ui-'))
  /** Where screenshots go: HOMING_UI_SHOTS, or the temporary directory, which goes away. */
  readonly shots = process.env.HOMING_UI_SHOTS ?? join(this.directory, 'shots')
  /** Whether somebody will look at the screenshots. */
  readonly kept = process.env.HOMING_UI_SHOTS !== undefined
  private files = 0

  private constructor(
    readonly context: BrowserContext,
    private readonly profile: string,
  ) {
    mkdirSync(this.shots, { recursive: true })
  }

  static async start(): Promise<Browser> {
    const profile = mkdtempSync(join(tmpdir(), 'homing-ui-profile-'))
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: CHROMIUM,
      headless: true,
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
      viewport: { width: 1280, height: 900 },
    })
    return new Browser(context, profile)
  }

  /** Opens a report; `complaints` collects console errors, page errors and requests beyond the file itself. */
  async open(report: object | string, options: Options = {}): Promise<{ page: Page; complaints: string[] }> {
    this.files += 1
    const file = join(this.directory, `report-${this.files}.html`)
    writeFileSync(file, render(report, options.built))
    return this.visit(file, options)
  }

  /** Opens a file. */
  async visit(file: string, options: Options = {}): Promise<{ page: Page; complaints: string[] }> {
    const page = await this.context.newPage()
    const complaints: string[] = []
    page.on(
      'console',
      (message) => ['error', 'warning'].includes(message.type()) && complaints.push(`console: ${message.text()}`),
    )
    page.on('pageerror', (error) => complaints.push(`error: ${error.stack ?? error.message}`))
    page.on(
      'request',
      (request) =>
        request.url().split('#')[0] !== `file://${file}` &&
        !/^(data|blob):/.test(request.url()) &&
        complaints.push(`request: ${request.url()}`),
    )
    await page.setViewportSize({ width: options.width ?? 1280, height: 900 })
    await page.emulateMedia({ colorScheme: options.dark ? 'dark' : 'light' })
    await page.goto(`file://${file}${options.hash ?? ''}`)
    await page.waitForSelector('html[data-ready]')
    return { page, complaints }
  }

  async shot(page: Page, name: string): Promise<void> {
    await page.screenshot({ path: join(this.shots, `${name}.png`), fullPage: true })
  }

  async stop(): Promise<void> {
    await this.context.close()
    for (const directory of [this.directory, this.profile])
      rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }
}
