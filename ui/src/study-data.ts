// The JSON of a study, and its cells grouped for the heat map. Pure functions.

/** Costs on the pages of one sharing class. */
export interface ClassCost {
  class: string
  pages: number
  references: number
  cost: number
  optimal_cost: number
}

/** One policy on one trace, machine, start and information level. */
export interface Cell {
  trace: string
  machine: string
  start: string
  information: string
  policy: string
  gap_percent: number
  recovered_percent?: number
  cost: number
  optimal_cost: number
  classes: ClassCost[]
}

export interface Study {
  schema: number
  generator: string
  parameters: { name: string; value: string }[]
  notes?: string[]
  cells: Cell[]
}

/** A study that cannot be shown. */
export class StudyError extends Error {}

export function parseStudy(text: string): Study {
  if (text.trim() === '')
    throw new StudyError('This page holds no study. `homing study` writes one with its data inside.')
  let study: Study
  try {
    study = JSON.parse(text) as Study
  } catch (error) {
    throw new StudyError(`The study inside this page is damaged: ${(error as Error).message}`)
  }
  if (study.schema !== 1) throw new StudyError(`The study has schema ${study.schema}; this page reads schema 1.`)
  return study
}

/** Least loss of first touch, in per cent of the optimal cost, of which a recovered share says something. */
const LOSS = 1

/** The recovered share in per cent, if first touch loses enough. */
export function recovered(cell: Cell): number | undefined {
  const share = cell.recovered_percent
  if (share === undefined || share === null || share >= 100) return share ?? undefined
  return cell.gap_percent / (1 - share / 100) >= LOSS ? share : undefined
}

/** The mean of what is there. */
export function mean(values: readonly (number | undefined)[]): number | undefined {
  const known = values.filter((value) => value !== undefined)
  return known.length === 0 ? undefined : known.reduce((a, b) => a + b, 0) / known.length
}

/** The geometric mean of 1 + gap, as a gap. */
export function meanGap(cells: readonly Cell[]): number | undefined {
  const log = mean(cells.map((cell) => Math.log1p(cell.gap_percent / 100)))
  return log === undefined ? undefined : 100 * Math.expm1(log)
}

/**
 * Cells by policy and by setting. Static policies do not depend on start and information: they stand in all
 * columns.
 */
export class Groups {
  /** Best first, by their mean over all cells. */
  readonly policies: string[]
  /** machine · start · information. */
  readonly columns: string[]
  private readonly cells: readonly Cell[]

  constructor(cells: readonly Cell[]) {
    this.cells = cells
    const settings = cells.filter((cell) => cell.start !== 'own')
    this.columns = [...new Set((settings.length > 0 ? settings : cells).map(setting))]
    const policies = [...new Set(cells.map((cell) => cell.policy))]
    this.policies = policies.sort((a, b) => (this.gap(a) ?? 0) - (this.gap(b) ?? 0))
  }

  /** Mean gap of a policy, in one column or over all its cells. */
  gap(policy: string, column?: string): number | undefined {
    const machine = column?.split(' · ')[0]
    const fits = (cell: Cell) =>
      column === undefined || setting(cell) === column || (cell.start === 'own' && cell.machine === machine)
    return meanGap(this.cells.filter((cell) => cell.policy === policy && fits(cell)))
  }
}

function setting(cell: Cell): string {
  return [cell.machine, cell.start, cell.information].join(' · ')
}
