// Reads the data that the page shows. Its types are made from the program's (report-types.ts).

import type { Report } from './report-types.ts'

export type * from './report-types.ts'

/** The schema version that this page understands. */
export const SCHEMA = 1

/** Data that the page cannot show; the message says what to do. */
export class ReportError extends Error {}

/** Reads the embedded JSON. Throws a `ReportError`. */
export function parse(text: string): Report {
  if (text.trim() === '') {
    throw new ReportError(
      'This is the empty template of the report page: it holds no data. `homing compare TRACE --machine M ' +
        '--html FILE` fills it.',
    )
  }
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch (error) {
    throw new ReportError(`The data inside this file is damaged (${(error as Error).message}). Write the report again.`)
  }
  const report = data as Partial<Report> | null
  if (report?.schema !== SCHEMA || !Array.isArray(report.traces)) {
    throw new ReportError(
      `This page reads reports of schema ${SCHEMA}, and the data inside is of schema ${report?.schema ?? 'unknown'}. ` +
        `Write it again with the program that brought this page.`,
    )
  }
  return report as Report
}
