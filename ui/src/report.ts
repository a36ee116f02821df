// The shape of the data that the page shows: what `homing compare --json` prints and `--html` embeds. It mirrors
// crates/homing-core/src/report.rs; tests/unit/golden.test.ts holds it against a report made by the program.

/** The schema version that this page understands. */
export const SCHEMA = 1

/** One policy (or the optimum) on one trace and machine. Costs are in local word references. */
export interface Row {
  /** Name of the policy; `optimal` for the bound. */
  policy: string
  machine: string
  references: number
  cost: number
  /** Mean cost per reference; 1 is all-local. */
  mcpr: number
  local: number
  remote: number
  global: number
  moves: number
  replications: number
  nonlocal_percent: number
  optimal_cost: number
  gap_percent: number
  /** Absent where first touch is already optimal. */
  recovered_percent?: number
  pages: number
  /** Wall-clock seconds that computing this row took (measured). */
  seconds: number
  /** The part of the cost that is page copies. */
  copy_cost: number
  moves_per_page: number
  /** What the policy saw (`perfect`, `every:64`, ...); absent where it does not matter. */
  information?: string
}

/** The whole file. */
export interface Report {
  schema: number
  /** Program and version that wrote it. */
  generator: string
  machine: MachineInfo
  /** Every parameter of the run, with defaults. */
  parameters: Parameter[]
  traces: TraceReport[]
  /** Geometric means over the traces; empty for a single trace. */
  means: MeanRow[]
  /** What the reader must know: what is modelled, what was left out. */
  notes: string[]
}

/** A named setting. */
export interface Parameter {
  name: string
  value: string
}

/** The machine; matrices are present for unequal distances, the letters r, R, g, G for equal ones. */
export interface MachineInfo {
  name: string
  description: string
  /** Memories, global memory included. */
  memories: number
  global_node?: number
  /** In bytes. */
  page_size: number
  remote?: number
  page_move?: number
  global?: number
  global_page_move?: number
  access?: number[][]
  copy?: number[][]
}

/** What the report says about one trace. */
export interface TraceReport {
  trace: TraceInfo
  /** The result in a sentence for a person. */
  summary: string
  rows: Row[]
  /** Rows of the policies at further information levels. */
  further_levels?: Row[]
  sharing: ClassRow[]
  page_map: PageMap
  curves: Curve[]
  perturbation: PerturbationRow[]
}

/** Where a trace comes from and how large it is. */
export interface TraceInfo {
  name: string
  digest: string
  command: string[]
  recorder: string
  references: number
  reads: number
  writes: number
  threads: number
  pages: number
  complete: boolean
}

/** Pages and references of one sharing class. */
export interface ClassRow {
  class: string
  pages: number
  references: number
  reads: number
  writes: number
  references_percent: number
  optimal_cost: number
  first_touch_cost: number
  homing_cost?: number
}

/** One entry a page, column by column, in order of address. */
export interface PageMap {
  /** Pages of the trace; more than `shown` if the map was cut to the pages with most references. */
  pages: number
  shown: number
  /** Address as `0x...`. */
  vaddr: string[]
  references: number[]
  /** Index into `TraceReport.sharing`. */
  class: number[]
  initial: number[]
  most_frequent: number[]
  /** Home at the end under the policy `policy`. */
  last: number[]
  policy: string
  optimal: number[]
  /** References by node, `by_node[page][node]`, where the writer has them. */
  by_node?: number[][]
  /** Names of data areas, and the area of each page as an index into them (-1: none), where the writer has them. */
  areas?: string[]
  area?: number[]
}

/** Cost against a parameter. */
export interface Curve {
  /** `page-move` or `page-size`. */
  parameter: string
  unit: string
  /** The machine's own value. */
  here?: number
  series: Series[]
}

/** One line of a curve. */
export interface Series {
  policy: string
  /** True if the points are all break-points of a piecewise linear curve. */
  exact: boolean
  points: CurvePoint[]
}

/** A point: the mean cost per reference and its parts. */
export interface CurvePoint {
  x: number
  mcpr: number
  local: number
  remote: number
  global: number
  copies: number
  moves_per_page: number
}

/** The optimum of a disturbed order against that of the recorded one. */
export interface PerturbationRow {
  filter: string
  seed: number
  optimal_cost: number
  change_percent: number
}

/** A policy over several traces. */
export interface MeanRow {
  policy: string
  mcpr: number
  gap_percent: number
  worst_gap_percent: number
  worst_trace: string
}

/** Data that the page cannot show; the message says what to do. */
export class ReportError extends Error {}

/** Reads the embedded JSON. Throws a `ReportError`. */
export function parse(text: string): Report {
  if (text.trim() === '') {
    throw new ReportError('This is the empty template of the report page: it holds no data. `homing compare TRACE --machine M --html FILE` fills it.')
  }
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch (error) {
    throw new ReportError(`The data inside this file is damaged (${(error as Error).message}). Write the report again.`)
  }
  const report = data as Partial<Report> | null
  if (report?.schema !== SCHEMA || !Array.isArray(report.traces)) {
    throw new ReportError(`This page reads reports of schema ${SCHEMA}, and the data inside is of schema ${report?.schema ?? 'unknown'}. Write it again with the program that brought this page.`)
  }
  return report as Report
}
